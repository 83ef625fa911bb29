// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// idleDecisions is how many decisions in a row may change nothing, while no other event is
// due, before the remaining jobs are given up as starved.
const idleDecisions = 1000

// slack is how long, in seconds, a policy may wait after all work should be done, such as
// for the end of a time slice.
const slack = 7 * 24 * 3600.0

// Run simulates until every job has completed, or until nothing more can happen. Jobs that
// did not complete are marked in the result. It returns an error if the Config is bad, if a
// policy breaks a rule, or if ctx is done.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	e, err := newEngine(cfg)
	if err != nil {
		return nil, fmt.Errorf("simulation: %w", err)
	}
	for {
		t, ok := e.nextInstant()
		if !ok || t > e.horizon {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e.passTo(t)
		e.charge()
		e.completions()
		e.clusterEvents()
		e.arrivals()
		if e.now >= e.decideAt {
			if err := e.decide(); err != nil {
				return nil, fmt.Errorf("simulation at %.3f s: %w", e.now, err)
			}
		}
		e.note()
	}
	return e.finish(), nil
}

// engine is the state of a running simulation.
type engine struct {
	cfg     Config
	cluster *cluster
	events  []trace.NodeEvent

	now  float64
	jobs []job
	// active holds the jobs that have arrived and not completed, by arrival; view is what
	// the policy sees of each.
	active []*job
	view   []policy.Job
	agenda agenda
	exact  exactCurves
	kinds  map[string]*speedup.Shape // by App, if Info.Kinds is set
	ended  services

	// horizon is a time long after all jobs would be complete if they ran one after the
	// other at their minimum. The simulation of a policy that resizes forever ends there.
	horizon float64

	arrived   int // jobs that have arrived
	happened  int // node events taken in
	completed int // jobs done

	changed  bool    // an event has to be considered by a decision
	decideAt float64 // time of the next decision; +Inf is none
	decided  float64 // time of the last one
	idle     int     // decisions in a row that changed nothing
	state    []byte
	nodes    []policy.Node // buffer
	order    []int         // buffer
	parts    []int         // buffer
	leaves   []topology.Part

	tree  *topology.Tree
	paths [][]int // of nodes in it
	alike map[string]*migrate.Sensitivity

	queues []queueUse // by name; empty without Config.Queues
	ledger ledger.Ledger

	result Result
}

func newEngine(cfg Config) (*engine, error) {
	e := &engine{
		cfg: cfg, cluster: newCluster(cfg.Nodes, cfg.Placement),
		jobs:   make([]job, len(cfg.Trace.Jobs)),
		ledger: ledger.Ledger{}, exact: exactCurves{}, kinds: map[string]*speedup.Shape{},
		decideAt: math.Inf(1), decided: math.Inf(-1),
	}
	if e.aware() {
		var err error
		if e.tree, err = treeOf(e.cluster); err != nil {
			return nil, err
		}
		e.paths = pathsOf(e.tree, len(e.cluster.nodes))
		e.alike = map[string]*migrate.Sensitivity{}
	}
	e.begin()
	e.events = slices.Clone(cfg.Events)
	slices.SortStableFunc(e.events, func(a, b trace.NodeEvent) int { return cmp.Compare(a.Time, b.Time) })
	for i := range e.jobs {
		t := &cfg.Trace.Jobs[i]
		e.jobs[i] = job{Job: t, num: i, left: t.Steps, at: t.Submit, heapAt: -1, wrong: cfg.Info.wrong(cfg.Seed, t.ID), result: newJobResult(t)}
		e.jobs[i].adapt(&cfg)
		e.horizon += 10 * (t.Duration(t.Min) + cfg.Resize.Gap(t.Min))
	}
	e.horizon += slack + e.jobs[len(e.jobs)-1].Submit
	if len(e.events) > 0 {
		e.horizon += e.events[len(e.events)-1].Time
	}
	return e, nil
}

// nextInstant returns the time of the next event; ok is false if there is none.
func (e *engine) nextInstant() (float64, bool) {
	t := math.Inf(1)
	if e.arrived < len(e.jobs) {
		t = e.jobs[e.arrived].Submit
	}
	if len(e.agenda) > 0 {
		t = min(t, e.agenda[0].next)
	}
	if e.completed < len(e.jobs) && e.happened < len(e.events) {
		t = min(t, e.events[e.happened].Time)
	}
	if len(e.active) > 0 {
		// A policy that only asks to be woken, and then does nothing, would never let the
		// simulation end.
		if math.IsInf(t, 1) && e.idle >= idleDecisions {
			return 0, false
		}
		t = min(t, e.decideAt)
	}
	return max(t, e.now), !math.IsInf(t, 1)
}

// passTo advances the time to t.
func (e *engine) passTo(t float64) {
	e.charge() // with what jobs hold until then
	dt := t - e.now
	if dt < 0 {
		panic("sim: time went back")
	}
	if e.completed < len(e.jobs) {
		total, free := e.cluster.capacity()
		e.result.Held += dt * float64(total-free)
		e.result.Capacity += dt * float64(total)
		e.queuesPass(dt)
	}
	e.now = t
}

// completions handles completions and first measurements of running jobs.
func (e *engine) completions() {
	ended := false
	for len(e.agenda) > 0 && e.agenda[0].next <= e.now {
		j := e.agenda[0]
		over := j.finish() <= e.now
		e.advance(j)
		if over && e.nextPhase(j) {
			over = false
		}
		if !over {
			e.schedule(j)
			continue
		}
		j.left = 0
		e.resize(j, 0)
		j.result.Ended, j.result.Done = true, e.now
		e.completed++
		ended = true
		e.learnService(j)
	}
	if ended {
		e.forget()
		e.change()
	}
}

// stop ends a job that has run for as long as its queue allows.
func (e *engine) stop(j *job) {
	e.resize(j, 0)
	j.result.Ended, j.result.Done = true, e.now
	e.completed++
}

// forget removes the jobs that have ended, in one pass: many may end in one instant.
func (e *engine) forget() {
	kept := 0
	for i, j := range e.active {
		if !j.result.Ended {
			e.active[kept] = j
			if kept != i {
				e.view[kept] = e.view[i]
			}
			kept++
		}
	}
	clear(e.active[kept:])
	clear(e.view[kept:])
	e.active, e.view = e.active[:kept], e.view[:kept]
}

// arrivals adds the jobs that have arrived.
func (e *engine) arrivals() {
	for ; e.arrived < len(e.jobs) && e.jobs[e.arrived].Submit <= e.now; e.arrived++ {
		j := &e.jobs[e.arrived]
		j.at = e.now
		if e.aware() && e.cfg.Info.Kinds && j.App != "" {
			if e.alike[j.App] == nil {
				e.alike[j.App] = &migrate.Sensitivity{}
			}
			j.alike = e.alike[j.App]
		}
		e.active = append(e.active, j)
		if e.cfg.Present != nil {
			e.resume(j)
		} else {
			e.view = append(e.view, e.describe(j))
		}
		e.change()
	}
}

// change notes that a decision is due.
func (e *engine) change() {
	e.changed = true
	e.idle = 0
	e.want(e.now)
}

// want asks for a decision at a time, or when the interval is over if that is later.
func (e *engine) want(t float64) {
	e.decideAt = min(e.decideAt, max(t, e.decided+e.cfg.Interval))
}

// schedule puts the job on the agenda by its next event.
func (e *engine) schedule(j *job) {
	j.next = j.finish()
	if !e.cfg.Info.Curves {
		j.next = min(j.next, j.measureAt(e.cfg.Seed))
	}
	if math.IsInf(j.next, 1) {
		e.agenda.drop(j)
		return
	}
	e.agenda.set(j)
}

// note records the use of the cluster after an instant.
func (e *engine) note() {
	if !e.cfg.History {
		return
	}
	total, free := e.cluster.capacity()
	running := 0
	for _, j := range e.active {
		if j.n > 0 {
			running++
		}
	}
	u := Usage{Time: e.now, Held: total - free, Capacity: total, Running: running, Waiting: len(e.active) - running}
	e.result.note(u)
}

// finish completes the result.
func (e *engine) finish() *Result {
	r := &e.result
	r.Jobs = make([]JobResult, len(e.jobs))
	for i := range e.jobs {
		j := &e.jobs[i]
		if !j.result.Ended {
			e.advance(j)
			j.result.Done = e.now
		}
		r.Jobs[i] = j.result
		r.Makespan = max(r.Makespan, j.result.Done)
	}
	fairness(e.cfg.Trace.Jobs, e.cfg.Nodes, r.Jobs)
	r.Queues = e.queueResults()
	return r
}
