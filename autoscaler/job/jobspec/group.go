// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/hashicorp/nomad/api"
)

// limits returns the smallest and largest count that Nomad accepts for the group,
// each limited to 0 to MaxWorkers.
func (r *reader) limits(g *api.TaskGroup, where string) (low, high int) {
	count := int64(deref(g.Count, 1))
	least, most := deref(g.Scaling.Min, count), deref(g.Scaling.Max, 0)
	switch {
	case most < 1:
		r.problem(where+".max", fmt.Sprintf("%d leaves no room for a worker", most), "write the largest number of workers, such as max = 8")
	case most > MaxWorkers:
		r.problem(where+".max", fmt.Sprintf("%d is above %d", most, MaxWorkers), fmt.Sprintf("write at most %d", MaxWorkers))
	}
	switch {
	case least < 0:
		r.problem(where+".min", fmt.Sprintf("%d is below 0", least), "write at least 0")
	case least > most && most >= 1:
		r.problem(where+".min", fmt.Sprintf("%d is above scaling.max = %d", least, most), "write a min that is not above max")
	}
	// Nomad keeps the count within these bounds, so a count outside is not a user's
	// error.
	if g.Count != nil && (count < 0 || count > MaxWorkers) {
		what := "below 0"
		if count > 0 {
			what = fmt.Sprintf("above %d", MaxWorkers)
		}
		r.problem(fmt.Sprintf("group %q: count", deref(g.Name, "")), fmt.Sprintf("%d is %s", count, what), "write a count within scaling.min and scaling.max")
	}
	clamp := func(n int64) int { return int(min(max(n, 0), MaxWorkers)) }
	return clamp(least), clamp(most)
}

// worker reads the resources of one allocation of the group.
func (r *reader) worker(g *api.TaskGroup, out *Group) {
	for _, t := range g.Tasks {
		if n := configured(t, "slots"); n <= MaxDevices {
			out.Slots = max(out.Slots, n)
		}
		if t.Resources == nil {
			continue
		}
		out.CPU = r.sum(out, "MHz of cpu", out.CPU, deref(t.Resources.CPU, 0))
		out.Cores = r.sum(out, "cores", out.Cores, deref(t.Resources.Cores, 0))
		out.Memory = r.sum(out, "MiB of memory", out.Memory, deref(t.Resources.MemoryMB, 0))
		for _, d := range t.Resources.Devices {
			where := fmt.Sprintf("group %q: task %q: resources.device %q", out.Name, t.Name, d.Name)
			if out.Device != "" && out.Device != d.Name {
				r.problem(where, fmt.Sprintf("the group already asks for %q, and one group can have one device type only", out.Device),
					"put the other device in a group of its own")
				continue
			}
			out.Device = d.Name
			n := deref(d.Count, 1)
			if n == 0 {
				r.problem(where, "it asks for 0 devices", "write count = 1 or more, or remove the device block")
			}
			out.Devices += int(min(n, MaxDevices+1))
		}
	}
	if out.Devices > MaxDevices {
		r.problem(fmt.Sprintf("group %q", out.Name), fmt.Sprintf("%d devices per worker are above %d", out.Devices, MaxDevices), fmt.Sprintf("ask for at most %d", MaxDevices))
		out.Devices = MaxDevices
	}
	if out.Slots == 0 {
		out.Slots = max(1, out.Devices)
	}
	for _, s := range services(g) {
		if s.Provider == "nomad" {
			out.Service = s.Name
			return
		}
	}
}

// configured returns a number in a task's config, such as its slots in a ring. It returns 0
// if the task does not configure it, if the driver would refuse the value, or if only the
// client knows it.
func configured(t *api.Task, name string) int {
	n := 0.0
	switch v := t.Config[name].(type) {
	case float64: // of JSON
		n = v
	case int: // of HCL
		n = float64(v)
	case string:
		n, _ = strconv.ParseFloat(v, 64)
	}
	if n >= 1 && n <= math.MaxInt32 && n == math.Trunc(n) {
		return int(n)
	}
	return 0
}

// sum adds a task's amount to the amount of earlier tasks.
func (r *reader) sum(g *Group, unit string, before, n int) int {
	if n < 0 || n > maxAmount-before {
		r.problem(fmt.Sprintf("group %q", g.Name), fmt.Sprintf("a task asks for %d %s", n, unit), fmt.Sprintf("write amounts from 0 to %d for all tasks of the group together", int(maxAmount)))
		return before
	}
	return before + n
}

func services(g *api.TaskGroup) []*api.Service {
	all := slices.Clone(g.Services)
	for _, t := range g.Tasks {
		all = append(all, t.Services...)
	}
	return all
}
