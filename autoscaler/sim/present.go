// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Present is the state at which a simulation begins, in place of an empty cluster.
type Present struct {
	Now float64

	// Jobs holds each job of the trace as the policy sees it: now or, if the job arrives
	// later, when it arrives. The policy learns all step times of a job at its next change
	// of size.
	Jobs []policy.Job

	// State and Changed are the fields of the first snapshot.
	State   []byte
	Changed bool

	// Past is the past of queues, which does not change during the simulation.
	Past map[string]queue.Past
}

// begin sets the engine to the present state, before any job has arrived.
func (e *engine) begin() {
	if p := e.cfg.Present; p != nil {
		e.now, e.state = p.Now, p.State
	}
}

// resume adds a job that has just arrived to the policy's view, in its present state; without
// one, describe does this. It drops workers that cannot be placed.
func (e *engine) resume(j *job) {
	e.view = append(e.view, e.cfg.Present.Jobs[j.num])
	v := &e.view[len(e.view)-1]
	workers := v.Count
	v.Count = 0
	j.left = max(0, j.Steps-v.Done)
	j.committed = j.left
	j.started, j.changed, j.resized = v.FirstStart > 0 || workers > 0, v.LastChange, v.LastChange
	j.result.Start, j.result.Attained, j.result.RunTime, j.result.Resizes = v.FirstStart, v.Attained, v.RunTime, v.Resizes
	if workers == 0 {
		return
	}
	j.typ = e.typeFor(j, &policy.Allocation{Type: v.Held})
	if i, found := slices.BinarySearch(e.cluster.types, v.Held); found {
		j.typ = i
	}
	per := max(1, j.PerWorker)
	added := e.put(j, per, workers, workers)
	n := j.allowed(added)
	e.remove(j, per, added-n)
	v.Count = n
	if n == 0 {
		return
	}
	j.n = n
	v.Held = e.cluster.types[j.typ]
	j.place(e)
	e.schedule(j)
}

// past returns the past of queues, for snapshots.
func (e *engine) past() map[string]queue.Past {
	if e.cfg.Present != nil {
		return e.cfg.Present.Past
	}
	return e.ledger.Past()
}

// unchanged reports whether, at the start of the simulation, nothing has changed since the
// policy's last decision.
func (e *engine) unchanged() bool {
	return e.cfg.Present != nil && e.result.Decisions == 0 && !e.cfg.Present.Changed
}

// showCurve lets the policy know the step times of a job that has new workers.
func (e *engine) showCurve(j *job, v *policy.Job) {
	if e.cfg.Present != nil {
		v.Curve = e.exact.of(j.shown())
	}
}
