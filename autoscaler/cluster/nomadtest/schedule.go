// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"
)

// conflict is Nomad's answer to a stale index.
type conflict struct{ want, have uint64 }

func (e conflict) Error() string {
	return fmt.Sprintf("Enforcing job modify index %d: job exists with conflicting job modify index: %d", e.want, e.have)
}

type refused string

func (e refused) Error() string { return string(e) }

const errNoJob refused = "job not found"

// scale does the work of Job.Scale. The caller holds c.mu.
func (c *Cluster) scale(id string, r *api.ScalingRequest) (*Job, error) {
	j := c.jobs[id]
	if j == nil {
		return nil, errNoJob
	}
	name := cmp.Or(r.Target["Group"], j.Group)
	groups := j.groups()
	at := slices.IndexFunc(groups, func(g Group) bool { return g.Name == name })
	if at < 0 {
		return nil, refused(fmt.Sprintf("task group %q does not exist in job", name))
	}
	g, least, key := groups[at], 0, [2]string{id, name}
	if at == 0 {
		least = j.Min
	}
	event := api.ScalingEvent{
		Count: r.Count, PreviousCount: int64(g.Count), Error: r.Error, Message: r.Message, Meta: r.Meta, Time: uint64(time.Now().UnixNano()),
	}
	if r.Count != nil && r.Error {
		return nil, refused("scaling action should not contain count if error is true")
	}
	if r.Count == nil {
		c.scales[key] = append([]api.ScalingEvent{event}, c.scales[key]...)
		return j, nil
	}
	n := int(*r.Count)
	switch {
	case n > g.Max:
		return nil, refused(fmt.Sprintf("group count was greater than scaling policy maximum: %d > %d", n, g.Max))
	case n < least:
		return nil, refused(fmt.Sprintf("group count was less than scaling policy minimum: %d < %d", n, least))
	case r.JobModifyIndex != 0 && r.JobModifyIndex != j.change:
		return nil, conflict{r.JobModifyIndex, j.change}
	}
	if c.OnScale != nil {
		c.OnScale(id, name, g.Count, n)
	}
	c.scales[key] = append([]api.ScalingEvent{event}, c.scales[key]...)
	c.scales[key] = c.scales[key][:min(20, len(c.scales[key]))]
	// A copy, since encodings of the old one may be under way.
	k := *j
	if at == 0 {
		k.Count = n
	} else {
		k.Others = slices.Clone(j.Others)
		k.Others[at-1].Count = n
	}
	c.revise(&k)
	c.writes++
	c.emit("Job", "JobRegistered", id, map[string]any{"Job": c.details(&k)})
	c.scheduleJob(&k)
	c.unblock()
	return &k, nil
}

// schedule places and stops workers of all jobs. The caller holds c.mu.
func (c *Cluster) schedule() {
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		c.scheduleJob(c.jobs[id])
	}
}

// unblock tries again to place workers that found no room.
func (c *Cluster) unblock() {
	for _, id := range slices.Sorted(maps.Keys(c.evals)) {
		if j := c.jobs[id]; j != nil {
			c.scheduleJob(j)
		} else {
			delete(c.evals, id)
		}
	}
}

func (c *Cluster) scheduleJob(j *Job) {
	missing := map[string]int{}
	for _, g := range j.groups() {
		missing[g.Name] = c.scheduleGroup(j, g)
	}
	c.block(j, missing)
}

// scheduleGroup places and stops workers of a group, and returns how many find no place.
func (c *Cluster) scheduleGroup(j *Job, g Group) (missing int) {
	want := g.Count
	if j.Stop {
		want = 0
	}
	names := map[int]bool{}
	var running []*Alloc
	for _, a := range c.byJob[j.ID] {
		switch {
		case a.Group != g.Name:
		case a.live() && a.Desired == api.AllocDesiredStatusRun:
			node := c.nodes[a.Node]
			if node.Drain {
				c.stop(a)
				continue
			}
			running = append(running, a)
			names[a.N] = true
		case a.Client == api.AllocClientStatusComplete && a.Desired == api.AllocDesiredStatusRun && a.version == j.version:
			names[a.N] = true // done, unless the job has changed in the meantime
		}
	}
	slices.SortFunc(running, func(a, b *Alloc) int { return a.N - b.N })
	for len(running) > want {
		c.stop(running[len(running)-1])
		running = running[:len(running)-1]
	}
	for _, a := range running {
		a.version = j.version // updated in place
	}
	for n := range want {
		if !names[n] && (g.Unplaceable || !c.place(j, g, n)) {
			missing++
		}
	}
	return missing
}

// place puts a worker on the first node with room. It stands for Nomad's scheduler,
// which knows nothing of Kolo's placement, so it shares no code with package
// placement. The planner must cope with workers that run elsewhere than planned.
func (c *Cluster) place(j *Job, group Group, n int) bool {
	from := c.full
	if group.GPUs == 0 {
		from = 0
	}
	for at := from; at < len(c.order); at++ {
		id := c.order[at]
		node := c.nodes[id]
		if at == c.full && node.GPUs == node.used && node.GPUs > 0 {
			c.full++
		}
		if node.Pool != j.pool() || node.State != api.NodeStatusReady || !node.Eligible || node.Drain ||
			node.GPUs-node.used < group.GPUs || node.CPU-node.usedCPU < group.CPU || j.Model != "" && j.Model != node.Model {
			continue
		}
		i := c.bump("allocs")
		now := time.Now().UnixNano()
		a := &Alloc{
			ID: fmt.Sprintf("%08x-1111-0000-0000-000000000000", i), Job: j.ID, Group: group.Name, Node: id, N: n,
			Client: api.AllocClientStatusRunning, Desired: api.AllocDesiredStatusRun, create: i, index: i, version: j.version,
			created: now, modified: now, cpu: group.CPU, model: node.Model,
		}
		for _, g := range node.ids {
			if len(a.devices) < group.GPUs && node.taken[g] == "" {
				node.taken[g] = a.ID
				a.devices = append(a.devices, g)
			}
		}
		node.used += group.GPUs
		node.usedCPU += group.CPU
		c.put(a)
		c.emit("Allocation", "PlanResult", a.ID, map[string]any{"Allocation": a.wire()})
		return true
	}
	return false
}

// stop tells a worker to end, which it does after StopDelay.
func (c *Cluster) stop(a *Alloc) {
	if a.Desired == api.AllocDesiredStatusStop {
		return
	}
	b := *a
	b.Desired, b.modified, b.index = api.AllocDesiredStatusStop, time.Now().UnixNano(), c.bump("allocs")
	c.put(&b)
	c.emit("Allocation", "PlanResult", b.ID, map[string]any{"Allocation": b.wire()})
	if c.StopDelay == 0 {
		c.end(&b, api.AllocClientStatusComplete, api.AllocDesiredStatusStop)
		return
	}
	time.AfterFunc(c.StopDelay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if a := c.allocs[b.ID]; a != nil && a.live() {
			c.end(a, api.AllocClientStatusComplete, api.AllocDesiredStatusStop)
			c.unblock()
		}
	})
}

func (c *Cluster) end(a *Alloc, client, desired string) {
	b := *a
	b.Client, b.Desired, b.modified, b.index = client, desired, time.Now().UnixNano(), c.bump("allocs")
	c.put(&b)
	n := c.nodes[a.Node]
	c.full = 0
	n.used -= len(a.devices)
	n.usedCPU -= a.cpu
	for _, g := range a.devices {
		delete(n.taken, g)
	}
	c.emit("Allocation", "AllocationUpdated", b.ID, map[string]any{"Allocation": b.wire()})
}

// block updates the job's blocked evaluation, of which a job has at most one, and the
// number of workers of its groups that wait. An evaluation that is tried again without
// success stays as it is.
func (c *Cluster) block(j *Job, missing map[string]int) {
	old, sum, changed := c.evals[j.ID], 0, false
	for name, n := range missing {
		sum += n
		changed = changed || c.queued[j.ID][name] != n
	}
	if changed {
		c.queued[j.ID] = missing
		c.summarize(j.ID)
	}
	switch {
	case sum == 0 && old == nil, sum > 0 && old != nil && old.version == j.version:
		return
	case sum == 0 && old.version == j.version:
		delete(c.evals, j.ID)
		c.evaluate(old, api.EvalStatusComplete, missing)
		return
	case sum == 0:
		delete(c.evals, j.ID)
		c.evaluate(c.newEval(j), api.EvalStatusComplete, missing)
		c.evaluate(old, "canceled", nil)
		return
	}
	before, e := c.newEval(j), c.newEval(j)
	e.trigger, before.blocked = "queued-allocs", e.id
	c.evals[j.ID] = e
	c.evaluate(e, api.EvalStatusBlocked, nil)
	if old != nil {
		c.evaluate(old, "canceled", nil)
	}
	c.evaluate(before, api.EvalStatusComplete, missing)
}

func (c *Cluster) newEval(j *Job) *eval {
	c.made++
	return &eval{id: fmt.Sprintf("%08x-2222-0000-0000-000000000000", c.made), job: j.ID, priority: j.Priority, trigger: "job-register", version: j.version}
}

// evaluate sets the status of an evaluation and emits the event.
func (c *Cluster) evaluate(e *eval, status string, queued map[string]int) {
	e.status, e.queued, e.index = status, queued, c.bump("evals")
	if c.jobs[e.job] != nil {
		c.emit("Evaluation", "EvaluationUpdated", e.id, map[string]any{"Evaluation": e.wire()})
	}
}
