// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// decide asks the policy and carries out its decision in the planner's order: shrink first,
// then grow into the free GPUs.
func (e *engine) decide() error {
	if len(e.active) == 0 {
		e.decideAt = math.Inf(1)
		return nil
	}
	s := e.snapshot()
	d := e.cfg.Policy.Allocate(s)
	if err := policy.Validate(s, &d); err != nil {
		return fmt.Errorf("policy %s broke a rule: %w", e.cfg.Policy.Name(), err)
	}
	e.result.Decisions++
	e.decided, e.decideAt, e.changed = e.now, math.Inf(1), false
	e.state = d.State

	completed := e.completed
	moved := e.shrink(&d)
	if e.grow(&d) {
		moved = true
	}
	if e.completed > completed {
		e.forget()
	}
	if e.cfg.Placement == Migrate {
		e.migrate()
	}
	e.entitle()
	if moved {
		e.idle = 0
	} else {
		e.idle++
	}
	if next := e.charge(); next > e.now {
		e.want(next)
	}
	if d.RequeueAt > e.now {
		e.want(d.RequeueAt)
	}
	if e.cfg.Period > 0 {
		e.want(e.now + e.cfg.Period)
	}
	return nil
}

// shrink takes workers away as decided, and notes the jobs that are to grow. It reports
// whether any job changed.
func (e *engine) shrink(d *policy.Decision) (moved bool) {
	e.order = e.order[:0]
	for i, j := range e.active {
		a := &d.Allocations[i]
		typ := e.typeFor(j, a)
		back := a.Reclaimed && a.Count < j.n
		if a.Stops {
			e.stop(j)
			moved = true
			continue
		}
		if held := j.changed + e.cfg.Hold; j.started && e.now < held && !back {
			if a.Count != j.n || j.n > 0 && typ != j.typ {
				e.changed = true // also for policies that plan on events only
				e.want(held)
			}
			continue
		}
		switch {
		case a.Count > 0 && j.n > 0 && typ != j.typ:
			e.resize(j, 0) // moves to other GPUs
			moved = true
			e.order = append(e.order, i)
		case a.Count < j.n:
			if back {
				e.tookBack(j, a.Count)
			}
			e.resize(j, a.Count)
			moved = true
		case a.Count > j.n:
			e.order = append(e.order, i)
		}
	}
	return moved
}

// grow gives the noted jobs their workers, as far as these find a place. It reports whether
// any job changed.
func (e *engine) grow(d *policy.Decision) (moved bool) {
	// The largest first: they are the hardest to place together.
	slices.SortStableFunc(e.order, func(a, b int) int {
		return cmp.Compare(e.gpusOf(b, d), e.gpusOf(a, d))
	})
	for _, i := range e.order {
		j, a := e.active[i], &d.Allocations[i]
		if j.n == 0 {
			j.typ = e.typeFor(j, a)
		}
		before := j.n
		e.resize(j, a.Count)
		moved = moved || j.n != before
		if j.n < a.Count {
			e.result.Refused++
		}
	}
	return moved
}

func (e *engine) gpusOf(i int, d *policy.Decision) int {
	return e.active[i].GPUs(d.Allocations[i].Count)
}

// typeFor returns the GPU type for a job: its own, else the one the policy counted with,
// else the one it holds, else the one with most free GPUs.
func (e *engine) typeFor(j *job, a *policy.Allocation) int {
	want := j.Type
	if want == "" {
		want = a.Type
	}
	if i, found := slices.BinarySearch(e.cluster.types, want); found {
		return i
	}
	if j.n > 0 {
		return j.typ
	}
	best := 0
	for i := range e.cluster.pools {
		if e.cluster.pools[i].free > e.cluster.pools[best].free {
			best = i
		}
	}
	return best
}

// snapshot returns what the policy may see.
func (e *engine) snapshot() *policy.Snapshot {
	for i, j := range e.active {
		if j.n > 0 {
			e.advance(j)
			v := &e.view[i]
			v.Attained, v.RunTime, v.Done = j.result.Attained, j.result.RunTime, j.Steps-j.left
			if e.cfg.Info.Remaining || v.Remaining > 0 {
				v.Remaining = j.left * j.wrong
			}
		}
		e.view[i].Alike = e.alikeOf(j)
	}
	e.nodes = e.cluster.snapshot(e.nodes)
	return &policy.Snapshot{
		Now: e.now, Seed: e.cfg.Seed, Nodes: e.nodes, Jobs: e.view,
		ResizeCost: e.cfg.Resize.Gap(1), Changed: e.changed && !e.unchanged(), State: e.state, Past: e.past(),
	}
}

// describe returns a job as the policy first sees it.
func (e *engine) describe(j *job) policy.Job {
	v := policyJob(j.Job)
	v.Namespace, v.Queue = j.Tenant, e.queueOf(j)
	if e.cfg.Info.Remaining {
		v.Remaining = j.left * j.wrong
	}
	if e.cfg.Info.Curves {
		v.Curve = e.exact.of(j.shown())
	} else if kind := e.kind(j); kind != nil {
		v.Curve = kind.Extend(speedup.Curve{}).Sublinear()
	}
	return v
}

// exactCurves holds true curves in the form that policies see.
type exactCurves map[*trace.Curve]speedup.Curve

// of returns a curve in that form, made once.
func (e exactCurves) of(c *trace.Curve) speedup.Curve {
	if v, ok := e[c]; ok {
		return v
	}
	times := make([]float64, c.Most())
	for i := range times {
		times[i] = c.StepTime(i + 1)
	}
	e[c] = speedup.CurveOf(times...)
	return e[c]
}

// policyJob returns the part of a policy.Job that never changes.
func policyJob(j *trace.Job) policy.Job {
	return policy.Job{
		ID: j.ID, Tenant: j.Tenant, Type: j.Type, Weight: j.Weight, Priority: j.Priority,
		Submit: j.Submit, Deadline: j.Deadline,
		Min: j.Min, Max: j.Max, Preferred: j.Preferred, Sizes: j.Sizes, PerWorker: max(1, j.PerWorker),
		Preemptible: j.Preemptible, Adapts: j.Goodput != nil,
	}
}

// viewOf returns what the policy sees of a job, nil if it no longer sees it.
func (e *engine) viewOf(j *job) *policy.Job {
	i, found := slices.BinarySearchFunc(e.active, j.num, func(a *job, num int) int { return a.num - num })
	if !found {
		return nil
	}
	return &e.view[i]
}
