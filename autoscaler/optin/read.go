// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package optin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Key is the name of Kolo's block inside policy { }.
const Key = "kolo"

// Asks says whether any group of the job holds a kolo block, valid or not and
// enabled or not. Jobs that do not ask are never touched or complained about.
func Asks(job *api.Job) bool {
	for _, g := range job.TaskGroups {
		if g.Scaling != nil && asks(g.Scaling) {
			return true
		}
	}
	return false
}

func asks(s *api.ScalingPolicy) bool {
	_, ok := s.Policy[Key]
	return ok
}

// Enabled says whether the job asks and the user's switch (scaling.enabled) is
// on for at least one asking group. Nomad turns the switch off itself when a
// job is stopped.
func Enabled(job *api.Job) bool {
	for _, g := range job.TaskGroups {
		if g.Scaling != nil && asks(g.Scaling) && enabled(g.Scaling) {
			return true
		}
	}
	return false
}

func enabled(s *api.ScalingPolicy) bool { return s.Enabled == nil || *s.Enabled }

// Read returns the job's Spec, or every problem it has. A job whose groups
// all have scaling.enabled = false has no Spec and no problem: both are nil.
func Read(job *api.Job) (*Spec, Problems) {
	r := &reader{job: job}
	r.wholeJob()
	for _, g := range job.TaskGroups {
		if g.Scaling == nil || !asks(g.Scaling) || !enabled(g.Scaling) {
			continue
		}
		r.group(g)
	}
	if len(r.spec.Groups) == 0 && len(r.problems) == 0 {
		return nil, nil
	}
	r.finish()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return &r.spec, nil
}

// reader collects one job's Spec and problems.
type reader struct {
	job      *api.Job
	spec     Spec
	kolo     block // job-wide keys, merged over the groups
	problems Problems
}

func (r *reader) problem(where, what, fix string) {
	r.problems = append(r.problems, Problem{Where: where, What: what, Fix: fix})
}

// wholeJob checks what belongs to the job as a whole.
func (r *reader) wholeJob() {
	if !Enabled(r.job) {
		return
	}
	switch t := deref(r.job.Type, api.JobTypeService); t {
	case api.JobTypeBatch, api.JobTypeService:
	default:
		r.problem("job.type", fmt.Sprintf("a %s job has one allocation per node and cannot be scaled", t),
			`write type = "batch"`)
	}
	if r.job.IsPeriodic() {
		r.problem("job.periodic", "the periodic job itself runs nothing; only its children do",
			"register the training job itself")
	}
	if r.job.IsParameterized() && !r.job.Dispatched {
		r.problem("job.parameterized", "the parameterized job itself runs nothing; only dispatched jobs do",
			"set scaling.enabled = false there, or register the training job itself")
	}
	if r.job.Multiregion != nil && len(r.job.Multiregion.Regions) > 0 {
		r.problem("job.multiregion", "one autoscaler acts in one region",
			"register one job per region")
	}
}

func (r *reader) group(g *api.TaskGroup) {
	name := deref(g.Name, "")
	where := fmt.Sprintf("group %q: scaling", name)
	s := g.Scaling

	if s.Type != "" && s.Type != api.ScalingPolicyTypeHorizontal {
		r.problem(where+".type", fmt.Sprintf("%q cannot be scaled by count", s.Type), `leave it out or write type = "horizontal"`)
	}
	for key := range s.Policy {
		if key == "check" {
			r.problem(where+".policy", "check blocks belong to another autoscaler, and two must not scale one group",
				"remove the check blocks, or the kolo block")
		}
	}

	out := Group{Name: name, Min: int(deref(s.Min, int64(deref(g.Count, 1)))), Max: int(deref(s.Max, 0))}
	if out.Max < 1 {
		r.problem(where+".max", fmt.Sprintf("%d leaves no room for a worker", out.Max), "write the largest number of workers, such as max = 8")
	}
	if out.Min > out.Max && out.Max >= 1 {
		r.problem(where+".min", fmt.Sprintf("%d is above scaling.max = %d", out.Min, out.Max), "write a min that is not above max")
	}
	r.worker(g, &out)

	b, problems := decode(where+".policy."+Key, s.Policy[Key])
	r.problems = append(r.problems, problems...)
	r.problems = append(r.problems, r.kolo.merge(b)...)

	if u := g.Update; u != nil && deref(r.job.Type, "") == api.JobTypeService && deref(u.MaxParallel, 1) > 0 {
		r.problem(fmt.Sprintf("group %q: update", name), "each change of the count would start a deployment, which blocks the next change until it is healthy",
			"write update { max_parallel = 0 }")
	}
	r.spec.Groups = append(r.spec.Groups, out)
}

// worker reads what one allocation of the group holds.
func (r *reader) worker(g *api.TaskGroup, out *Group) {
	for _, t := range g.Tasks {
		if t.Resources == nil {
			continue
		}
		out.CPU += deref(t.Resources.CPU, 0)
		out.Cores += deref(t.Resources.Cores, 0)
		out.Memory += deref(t.Resources.MemoryMB, 0)
		for _, d := range t.Resources.Devices {
			if out.Device != "" && out.Device != d.Name {
				r.problem(fmt.Sprintf("group %q: task %q: device %q", out.Name, t.Name, d.Name),
					fmt.Sprintf("the group already asks for %q, and one group can have one device type only", out.Device),
					"put the other device in a group of its own")
				continue
			}
			out.Device = d.Name
			out.Devices += int(deref(d.Count, 1))
		}
	}
	for _, s := range services(g) {
		if s.Provider == "nomad" {
			out.Service = s.Name
			return
		}
	}
}

func services(g *api.TaskGroup) []*api.Service {
	all := slices.Clone(g.Services)
	for _, t := range g.Tasks {
		all = append(all, t.Services...)
	}
	return all
}

// finish fills defaults and checks what only the whole job can tell.
func (r *reader) finish() {
	s, b := &r.spec, &r.kolo
	sumMin, sumMax := 0, 0
	s.CanWait = true
	for _, g := range s.Groups {
		sumMin += g.Min
		sumMax += g.Max
		s.CanWait = s.CanWait && g.Min == 0
		if g.Device != s.Groups[0].Device {
			r.problem(fmt.Sprintf("group %q", g.Name), fmt.Sprintf("asks for device %q where group %q asks for %q", g.Device, s.Groups[0].Name, s.Groups[0].Device),
				"use one device type for all elastic groups of a job")
		} else if g.Devices != s.Groups[0].Devices {
			r.problem(fmt.Sprintf("group %q", g.Name), fmt.Sprintf("holds %d devices per worker where group %q holds %d", g.Devices, s.Groups[0].Name, s.Groups[0].Devices),
				"use the same number of devices per worker in all elastic groups of a job")
		}
	}
	s.Max = sumMax
	if b.max.set {
		s.Max = int(b.max.value)
		r.within(b.max.where, s.Max, max(1, sumMin), sumMax, "scaling.max of all groups")
	}
	s.Min = max(1, sumMin)
	if b.min.set {
		s.Min = int(b.min.value)
		r.within(b.min.where, s.Min, max(1, sumMin), s.Max, "the largest size")
		if s.Min > sumMin && !s.CanWait {
			r.problem(b.min.where, fmt.Sprintf("the job would wait for %d workers but scaling.min = %d starts it with fewer", s.Min, sumMin),
				"write scaling { min = 0 } so that it can wait with none, or remove kolo.min")
		}
	}
	s.Sizes = r.sizes()
	s.Preferred = s.Max
	if b.preferred.set {
		s.Preferred = int(b.preferred.value)
		r.within(b.preferred.where, s.Preferred, s.Min, s.Max, "the largest size")
	}
	s.Weight = b.weight.or(1)
	s.Priority = int(b.priority.or(float64(deref(r.job.Priority, 50))))
	s.TotalWork = b.totalWork.or(0)
	s.Queue = deref(r.job.Namespace, "default")
	if b.queue.set {
		s.Queue = b.queue.value
	}
	s.Kind = b.kind.or(deref(r.job.ParentID, ""))
	if s.Kind == "" {
		s.Kind = deref(r.job.ID, "")
	}
	s.Suspendable = b.suspendable.value
	if s.Suspendable && !s.CanWait {
		r.problem(b.suspendable.where, fmt.Sprintf("a suspended job has no workers, but scaling.min = %d", sumMin), "write scaling { min = 0 }")
	}
	s.Deadline, s.DeadlineAfter = r.deadline()
}

func (r *reader) within(where string, v, low, high int, highName string) {
	if v < low {
		r.problem(where, fmt.Sprintf("%d is below %d", v, low), fmt.Sprintf("write at least %d", low))
	} else if v > high {
		r.problem(where, fmt.Sprintf("%d is above %s, %d", v, highName, high), fmt.Sprintf("write at most %d", high))
	}
}

// sizes turns sizes, step or powers_of_two into the allowed totals.
func (r *reader) sizes() []int {
	s, b := &r.spec, &r.kolo
	var given []string
	for _, k := range []struct {
		name string
		set  bool
	}{{"sizes", b.sizes.set}, {"step", b.step.set}, {"powers_of_two", b.powers.value}} {
		if k.set {
			given = append(given, k.name)
		}
	}
	if len(given) > 1 {
		r.problem(b.where, strings.Join(given, " and ")+" contradict each other", "keep one of them")
		return nil
	}
	var out []int
	switch {
	case b.sizes.set:
		out = slices.Clone(b.sizes.value)
		slices.Sort(out)
		out = slices.Compact(out)
		for _, n := range out {
			r.within(b.sizes.where, n, s.Min, s.Max, "the largest size")
		}
	case b.step.set:
		for n := s.Min; n <= s.Max && b.step.value >= 1; n += int(b.step.value) {
			out = append(out, n)
		}
	case b.powers.value:
		for n := 1; n <= s.Max; n *= 2 {
			if n >= s.Min {
				out = append(out, n)
			}
		}
		if len(out) == 0 {
			r.problem(b.powers.where, fmt.Sprintf("there is no power of two from %d to %d", s.Min, s.Max), "widen the range, or remove powers_of_two")
		}
	}
	if len(out) > 0 {
		s.Min, s.Max = max(s.Min, out[0]), min(s.Max, out[len(out)-1])
	}
	return out
}

// deadline reads an RFC 3339 time, or a duration after the job was submitted.
func (r *reader) deadline() (time.Time, time.Duration) {
	d := r.kolo.deadline
	if !d.set {
		return time.Time{}, 0
	}
	if t, err := time.Parse(time.RFC3339, d.value); err == nil {
		return t, 0
	}
	after, err := time.ParseDuration(d.value)
	if err != nil || after <= 0 {
		r.problem(d.where, fmt.Sprintf("%q is neither a time nor a duration", d.value),
			`write deadline = "2027-01-31T18:00:00Z", or deadline = "6h" to count from the submission`)
		return time.Time{}, 0
	}
	return time.Time{}, after
}

func deref[T any](p *T, or T) T {
	if p == nil {
		return or
	}
	return *p
}
