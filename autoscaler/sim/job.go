// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// job is a job during a simulation.
//
//	future ──arrival──> waiting ──start──> running ──completion──> done
//	                       ^                  │
//	                       └────suspension────┘
type job struct {
	*trace.Job
	num int // in the trace

	n        int               // workers
	typ      int               // GPU type held, place in cluster.types
	shares   []placement.Share // where the workers are
	step     float64           // seconds per step at present
	crossing migrate.Crossing  // of the workers, if placement depends on it

	evaluations uint64    // by Nomad's scheduler
	moves       []float64 // when its workers were moved, within the last hour

	// left is the number of steps to go as of time at. No step is made
	// before gapEnd.
	left, at, gapEnd float64

	// phases are those of a job that adapts its batch size, and phase the present one. It
	// ends when rest steps are left; without phases, rest is 0.
	phases []trace.Phase
	phase  int
	rest   float64

	// wrong is the factor by which the disclosed remaining work is wrong.
	wrong float64

	started bool
	changed float64 // when its size last changed
	resized float64 // when it last started or was resized

	// committed is the value of left at the last change of size. Commits are
	// counted from then on.
	committed float64

	seen      measured
	sensitive migrate.Sensitivity
	alike     *migrate.Sensitivity // of jobs of its kind, nil if it shares none

	next   float64 // time of its own next event
	heapAt int     // place in the agenda, -1 if not in it

	result JobResult // reported at the end
}

// gpus returns how many GPUs the job holds.
func (j *job) gpus() int { return j.GPUs(j.n) }

// advance brings the job's accounts to now. It returns the seconds of the interval that lay
// in a gap, and the steps made.
func (j *job) advance(now float64) (gap, steps float64) {
	dt := now - j.at
	if j.n == 0 || dt <= 0 {
		j.at = max(j.at, now)
		return 0, 0
	}
	from := min(max(j.at, j.gapEnd), now)
	steps = min((now-from)/j.step, j.left-j.rest)
	j.left -= steps
	j.result.Attained += dt * float64(j.gpus())
	j.result.RunTime += dt
	gap = from - j.at
	j.at = now
	return gap, steps
}

// finish returns the time at which the job or its phase completes if nothing changes.
func (j *job) finish() float64 {
	if j.n == 0 {
		return math.Inf(1)
	}
	return max(j.at, j.gapEnd) + (j.left-j.rest)*j.step
}

// allowed returns the largest allowed size that is at most n, 0 if there is none.
func (j *job) allowed(n int) int { return j.Sizes.Fit(n, j.Min, j.Max) }

// rollback takes the job back to its last commit and returns the training seconds lost.
// Commits are made every commit seconds of training, and at each change of size.
func (j *job) rollback(commit float64) (lost float64) {
	if commit <= 0 || j.n == 0 {
		return 0
	}
	trained := (j.committed - j.left) * j.step
	lost = math.Mod(trained, commit)
	j.left = min(j.left+lost/j.step, j.committed)
	return lost
}
