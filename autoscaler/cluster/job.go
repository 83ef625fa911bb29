// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// putJob stores a job that was read.
func (w *Watcher) putJob(j *job) {
	key := j.key
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	old := w.store.jobs[key]
	if old != nil && old.create == j.create {
		if old.modify > j.modify {
			return
		}
		if old.queue.index > j.queue.index {
			j.queue = old.queue
		}
	}
	if !j.elastic && !w.store.waits(key) {
		if old == nil {
			return
		}
		delete(w.store.jobs, key)
	} else {
		w.store.jobs[key] = j
	}
	notify(w.wake)
}

func newJob(key identity.JobKey, info *api.Job) *job {
	j := &job{
		key: key, elastic: jobspec.Asks(info), enabled: jobspec.Enabled(info),
		typ: deref(info.Type), pool: deref(info.NodePool), status: deref(info.Status), stopped: deref(info.Stop),
		priority: deref(info.Priority), version: deref(info.Version),
		create: deref(info.CreateIndex), modify: deref(info.ModifyIndex), change: deref(info.JobModifyIndex),
		submitted: time.Unix(0, deref(info.SubmitTime)),
	}
	if j.pool == "" {
		j.pool = api.NodePoolDefault
	}
	if j.elastic && j.enabled {
		j.spec, j.problems = jobspec.Read(info)
		if j.pool == api.NodePoolAll {
			j.problems = append(j.problems, problem.Problem{
				Field: "job.node_pool", Text: `"all" spans pools that each have a policy of their own`, Remedy: "write the node pool that the job trains in",
			})
		}
	}
	for _, g := range info.TaskGroups {
		j.groups = append(j.groups, newGroup(j, info, g))
	}
	return j
}

func newGroup(j *job, info *api.Job, g *api.TaskGroup) jobGroup {
	out := jobGroup{name: deref(g.Name), count: deref(g.Count), elastic: jobspec.GroupAsks(g)}
	constraints := slices.Concat(info.Constraints, g.Constraints)
	var h held
	for _, t := range g.Tasks {
		constraints = append(constraints, t.Constraints...)
		if !slices.Contains(out.drivers, t.Driver) {
			out.drivers = append(out.drivers, t.Driver)
		}
		if r := t.Resources; r != nil {
			h.add(t.Lifecycle, amounts{amount(r.CPU), amount(r.MemoryMB)}, false)
			for _, d := range r.Devices {
				n := uint64(1)
				if d.Count != nil {
					n = *d.Count
				}
				out.device, out.slots = d.Name, out.slots+int(min(n, mostAmount))
			}
		}
	}
	sum := h.all()
	out.cpu, out.memory = sum.cpu, sum.memory
	slices.Sort(out.drivers)
	var terms []string
	for _, c := range constraints {
		if c.Operand == api.ConstraintDistinctHosts {
			out.distinct = c.RTarget != "false"
			continue
		}
		if term, ok := joined(c); ok && len(terms) < termsLimit {
			terms = append(terms, term)
		}
	}
	slices.Sort(terms)
	datacenters := info.Datacenters
	if len(datacenters) > termsLimit || slices.ContainsFunc(datacenters, func(d string) bool { return len(d) > targetLimit }) {
		datacenters = nil // left to Nomad
	}
	out.class = classKey{
		pool: j.pool, datacenters: strings.Join(datacenters, termSeparator), device: out.device,
		drivers: strings.Join(out.drivers, termSeparator), constraints: strings.Join(slices.Compact(terms), termSeparator),
	}
	return out
}

// mostAmount is more than any node has, and far below the largest integer. Nothing
// bounds the resources that a job without a kolo block asks for.
const mostAmount = 1 << 30

func amount(n *int) int { return min(max(deref(n), 0), mostAmount) }

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
