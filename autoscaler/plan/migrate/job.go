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
	// Slowdown is the time of a step with so many workers at each site, as a
	// multiple of that now; 1 where it is unknown. nil is 1 for all.
	Slowdown func(counts []int) float64
}

// Options are the settings of the decision.
type Options struct {
	// Hysteresis is by which part of the cost the gain must be above it.
	Hysteresis float64
	// LeastGain is by which part a step must get faster for a job to be moved: a
	// measurement is not more exact.
	LeastGain float64
	// Overlap is how long, in seconds, old and new workers of a move hold slots at
	// the same time.
	Overlap float64
	// Budget is how much one Rearrange may look at: about as many times one site of
	// one job. It bounds its time, and is no time, so that the same jobs always give
	// the same moves.
	Budget int
	// Offset is the mover that Rearrange looks at first, counted on from the first one
	// after the last. With the next one each time all have their turn where the
	// budget does not suffice.
	Offset int
}

// DefaultBudget suffices to look at all moves of some dozen jobs on a dozen domains
// each where all slots are taken, and of hundreds where some are free. Looking at so
// much takes about 0.2 s.
const DefaultBudget = 50_000_000

// DefaultOptions are right for jobs that train for minutes or longer.
func DefaultOptions() Options {
	return Options{Hysteresis: 0.5, LeastGain: 0.03, Overlap: 10, Budget: DefaultBudget}
}

// Move is a job's workers at other sites.
type Move struct {
	Counts    []int   // of workers by site, in the end
	Workers   int     // that move
	GrowFirst bool    // into free slots, or else shrinks first
	Slowdown  float64 // of the steps, below 1 where they get faster
	Gain      float64 // slot-seconds
	Cost      float64 // slot-seconds
}

// justifies reports whether a gain justifies a cost.
func (o Options) justifies(gain, cost float64) bool { return gain > (1+o.Hysteresis)*cost }

// size is how many workers the job has.
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

// way is how a number of workers may move, ok is false where they may not: with
// them there twice, or not at all, the job has to be of a size that it may have.
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

// inside reports whether so many workers at each site keep to the rule.
func (j *Job) inside(counts []int) bool {
	after := slices.Clone(j.Sites)
	for i, n := range counts {
		after[i].Held = n
	}
	return placement.Inside(after, j.Rule.Within)
}

// move is the move to new counts, priced; ok is false where it may not be made.
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
