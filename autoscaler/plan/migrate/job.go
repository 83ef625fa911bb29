// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// Job is a running job whose workers may move.
type Job struct {
	Sites []placement.Site // with its workers, and the room that is free now
	Rule  placement.Rule
	Slots int // of one worker

	Min, Max int       // workers while it runs
	Sizes    sizes.Set // allowed totals

	Remaining float64 // seconds that it is expected to train on, as it is placed
	Gap       float64 // seconds in which a change of its ring stops it
	// Slowdown returns the time of a step with the given workers at each site, as a
	// multiple of the current step time, or 1 if unknown. nil means that it is always 1.
	Slowdown func(counts []int) float64
}

// Options are the settings of the decision.
type Options struct {
	// Hysteresis states by how much the gain must exceed the cost, as a part of the cost.
	Hysteresis float64
	// LeastGain is the least part by which a step must get faster for a job to move.
	// Measurements are not more exact than that.
	LeastGain float64
	// Overlap is how long, in seconds, old and new workers of a move hold slots at
	// the same time.
	Overlap float64
	// Budget limits the work of one Rearrange: how often it looks at a site of a job.
	// Unlike a limit of time, it gives the same moves for the same jobs.
	Budget int
	// Offset is the mover that Rearrange looks at first, modulo the number of movers.
	// If each call passes the next number, all movers have their turn, even if the
	// budget is not enough for all.
	Offset int
}

// DefaultBudget is spent in about 0.2 s. If all slots are taken, this budget is enough to
// examine all moves of a few dozen jobs with a dozen sites each. If some slots are free, it
// is enough for hundreds of jobs.
const DefaultBudget = 50_000_000

// DefaultOptions returns options for jobs that train for minutes or longer.
func DefaultOptions() Options {
	return Options{Hysteresis: 0.5, LeastGain: 0.03, Overlap: 10, Budget: DefaultBudget}
}

// Move is the decision to move workers of a job to other sites.
type Move struct {
	Counts    []int   // workers by site after the move
	Workers   int     // number of workers that move
	GrowFirst bool    // the job grows into free slots before it shrinks; else it shrinks first
	Slowdown  float64 // of the steps; below 1 means that they get faster
	Gain      float64 // slot-seconds
	Cost      float64 // slot-seconds
}

// justifies reports whether a gain justifies a cost.
func (o Options) justifies(gain, cost float64) bool { return gain > (1+o.Hysteresis)*cost }

// size returns how many workers the job has.
func (j *Job) size() int {
	n := 0
	for i := range j.Sites {
		n += j.Sites[i].Held
	}
	return n
}

func (j *Job) counts() []int {
	out := make([]int, len(j.Sites))
	for i := range j.Sites {
		out[i] = j.Sites[i].Held
	}
	return out
}

func (j *Job) may(n int) bool { return n >= j.Min && n <= j.Max && j.Sizes.Fit(n, j.Min, j.Max) == n }

// way reports whether a number of workers may move, and whether the job grows first for
// that. In between, the job has this many workers more or fewer, which must be one of its
// allowed sizes.
func (j *Job) way(workers int) (growFirst, ok bool) {
	n := j.size()
	switch {
	case j.may(n + workers):
		return true, true
	case n-workers >= 1 && j.may(n-workers):
		return false, true
	}
	return false, false
}

// inside reports whether the given workers at each site keep to Rule.Within.
func (j *Job) inside(counts []int) bool {
	after := slices.Clone(j.Sites)
	for i, n := range counts {
		after[i].Held = n
	}
	return placement.Inside(after, j.Rule.Within)
}

// move returns the move to new counts, with its gain and cost; ok is false if it may not be
// made.
func (j *Job) move(counts []int, o Options) (m Move, ok bool) {
	m = Move{Counts: counts, Slowdown: 1}
	for i, n := range counts {
		switch s := &j.Sites[i]; {
		case n < s.Fixed || n > s.Held+s.Room:
			return m, false
		case n > s.Held:
			m.Workers += n - s.Held
		}
	}
	if m.Workers == 0 || j.Rule.Within > 0 && !j.inside(counts) {
		return m, false
	}
	if m.GrowFirst, ok = j.way(m.Workers); !ok {
		return m, false
	}
	if j.Slowdown != nil {
		m.Slowdown = j.Slowdown(counts)
	}
	slots := float64(j.size() * j.Slots)
	m.Gain = j.Remaining * (1 - m.Slowdown) * slots
	m.Cost = 2*j.Gap*slots + float64(m.Workers*j.Slots)*o.Overlap
	return m, true
}
