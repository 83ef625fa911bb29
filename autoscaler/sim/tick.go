// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// RunTicks simulates by the rules of count-level replays of the Pollux workloads. Time
// moves in ticks; tick is their length in seconds. In each tick, all jobs first make their
// steps. Then the policy sees the jobs that have arrived and are not done, and its counts
// hold for the next tick. A job whose count changes to a number other than 0 makes no step
// for the duration of the resize cost, and holds its GPUs meanwhile. A job completes at its
// exact time within a tick, but its GPUs are free only at the end of the tick. Placement,
// node events, noise and GPU types are not part of these rules; settings for them are
// refused or ignored.
//
// It calculates in double precision, in the order in which the rules are usually written,
// so results equal the results of another implementation to the last digit.
func RunTicks(ctx context.Context, cfg Config, tick float64) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	switch {
	case !(tick > 0):
		return nil, fmt.Errorf("simulation: tick %v: want more than 0 s", tick)
	case len(cfg.Events) > 0:
		return nil, errors.New("simulation: nodes cannot fail in ticks")
	case cfg.Queues != nil:
		return nil, errors.New("simulation: there are no queues in ticks")
	case slices.ContainsFunc(cfg.Trace.Jobs, func(j trace.Job) bool { return j.Goodput != nil }):
		return nil, errors.New("simulation: jobs cannot adapt their batch size in ticks")
	case !cfg.Info.Curves:
		return nil, errors.New("simulation: in ticks a policy knows the step times")
	}
	t := newTicks(cfg)
	for t.now = 0; t.done < len(t.jobs); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if t.now > t.horizon {
			break
		}
		for i := range t.jobs {
			t.done += t.jobs[i].tick(t.now, tick)
		}
		t.now += tick
		if err := t.decide(); err != nil {
			return nil, fmt.Errorf("simulation at %.3f s: %w", t.now, err)
		}
	}
	return t.finish(), nil
}

// ticks is the state of a simulation in ticks.
type ticks struct {
	cfg     Config
	nodes   []policy.Node
	gpus    int
	now     float64
	jobs    []tickJob
	done    int
	horizon float64
	state   []byte
	known   []int // jobs at the last decision
	spare   []int // buffer
	views   []policy.Job
	result  Result
}

// tickJob is a job in a simulation in ticks.
type tickJob struct {
	*trace.Job
	view    policy.Job
	n       int
	left    float64
	delay   float64 // seconds of the resize cost to go
	started bool
	result  JobResult
}

func newTicks(cfg Config) *ticks {
	t := &ticks{cfg: cfg, jobs: make([]tickJob, len(cfg.Trace.Jobs))}
	for _, n := range cfg.Nodes {
		t.nodes = append(t.nodes, policy.Node{ID: n.ID, Type: n.Type, GPUs: n.GPUs})
		t.gpus += n.GPUs
	}
	exact := exactCurves{}
	for i := range t.jobs {
		j := &cfg.Trace.Jobs[i]
		t.jobs[i] = tickJob{Job: j, left: j.Steps, view: policyJob(j), result: newJobResult(j)}
		t.jobs[i].view.Curve = exact.of(j.Curve)
		t.horizon += 10 * (j.Steps*j.StepTime(j.Min) + cfg.Resize.Gap(j.Min))
	}
	t.horizon += slack + t.jobs[len(t.jobs)-1].Submit
	return t
}

// tick makes a job's steps of one tick and returns 1 when it completes. The conversions
// keep the compiler from fusing a product and a sum, which would round differently on some
// machines.
func (j *tickJob) tick(now, dt float64) int {
	if j.result.Ended || j.n == 0 {
		return 0
	}
	d := math.Min(j.delay, dt)
	j.delay -= d
	u := dt - d
	t := j.StepTime(j.n)
	gpus := float64(j.GPUs(j.n))
	need := float64(j.left * t)
	if need <= u {
		j.result.Done = now + d + need
		j.result.Attained += float64((d + need) * gpus)
		j.result.RunTime += d + need
		j.result.Ended = true
		j.left = 0
		return 1
	}
	j.left -= u / t
	j.result.Attained += float64(dt * gpus)
	j.result.RunTime += dt
	return 0
}

// decide asks the policy at the end of a tick.
func (t *ticks) decide() error {
	s, shown := t.snapshot()
	s.Changed = !slices.Equal(shown, t.known)
	t.known, t.spare, t.views = shown, t.known, s.Jobs
	d := t.cfg.Policy.Allocate(s)
	if err := policy.Validate(s, &d); err != nil {
		return fmt.Errorf("policy %s broke a rule: %w", t.cfg.Policy.Name(), err)
	}
	t.result.Decisions++
	t.state = d.State
	held := 0
	for k, i := range shown {
		j := &t.jobs[i]
		if n := d.Allocations[k].Count; n != j.n {
			j.resize(n, t.now, t.cfg.History)
			j.view.LastChange = t.now
			if n > 0 {
				j.delay = t.cfg.Resize.Gap(n)
				if j.started {
					j.result.Resizes++
				} else {
					j.started, j.result.Start = true, t.now
				}
			}
		}
		held += j.GPUs(j.n)
	}
	if t.cfg.History {
		t.note(shown, held)
	}
	return nil
}

// snapshot returns what the policy may see, and which jobs it shows. Jobs that are over
// give up their GPUs.
func (t *ticks) snapshot() (s *policy.Snapshot, shown []int) {
	s = &policy.Snapshot{
		Now: t.now, Seed: t.cfg.Seed, Nodes: t.nodes, State: t.state,
		ResizeCost: t.cfg.Resize.Gap(1), Jobs: t.views[:0],
	}
	free := t.gpus
	shown = t.spare[:0]
	for i := range t.jobs {
		j := &t.jobs[i]
		if j.result.Ended || j.Submit > t.now {
			if j.result.Ended && j.n > 0 {
				j.resize(0, t.now, t.cfg.History)
			}
			continue
		}
		v := j.view
		v.Count, v.Attained, v.RunTime, v.Done = j.n, j.result.Attained, j.result.RunTime, j.Steps-j.left
		v.FirstStart, v.Resizes = j.result.Start, j.result.Resizes
		if j.n > 0 {
			v.Held = t.nodes[0].Type
		}
		if t.cfg.Info.Remaining {
			v.Remaining = j.left * t.cfg.Info.wrong(t.cfg.Seed, j.ID)
		}
		free -= j.GPUs(j.n)
		s.Jobs = append(s.Jobs, v)
		shown = append(shown, i)
	}
	for i := range t.nodes {
		t.nodes[i].Free = min(max(free, 0), t.nodes[i].GPUs)
		free -= t.nodes[i].Free
	}
	return s, shown
}

func (j *tickJob) resize(n int, now float64, history bool) {
	j.n = n
	if history {
		j.result.History = append(j.result.History, Change{Time: now, Workers: n, GPUs: j.GPUs(n)})
	}
}

// note records the use of the cluster.
func (t *ticks) note(shown []int, held int) {
	u := Usage{Time: t.now, Held: held, Capacity: t.gpus}
	for _, i := range shown {
		if t.jobs[i].n > 0 {
			u.Running++
		} else {
			u.Waiting++
		}
	}
	t.result.note(u)
}

// finish completes the result. Capacity counts until the last completion.
func (t *ticks) finish() *Result {
	r := &t.result
	for i := range t.jobs {
		j := &t.jobs[i]
		if !j.result.Ended {
			j.result.Done = t.now
		}
		r.Makespan = math.Max(r.Makespan, j.result.Done)
		r.Held += j.result.Attained
		r.Jobs = append(r.Jobs, j.result)
	}
	r.Capacity = float64(t.gpus) * r.Makespan
	fairness(t.cfg.Trace.Jobs, t.cfg.Nodes, r.Jobs)
	return r
}
