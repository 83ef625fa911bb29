// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// The work of a run. All steps have the same number of samples, which the ranks divide. So
// a step takes fullStep with fullSlots ranks, and twice as long with half of them.
const (
	fullSlots   = 4
	fullStep    = 100 * time.Millisecond
	stepSamples = 60
)

// stepWork is the work of one step, in slot-seconds.
var stepWork = fullSlots * fullStep.Seconds()

// A Run is the outcome of one run under a schedule. Times are in seconds.
type Run struct {
	// Start is the time from the command to the first step.
	Start float64 `json:"start"`
	// Wall is the time from the first step to the last, or to the end of a run that failed.
	Wall float64 `json:"wall"`
	// Steps is the number of steps that were done, and Wanted the number that was to be
	// done.
	Steps  int `json:"steps"`
	Wanted int `json:"wanted"`
	// Ideal is the productive share of the same script without launcher, commits and events,
	// directly before and after this run.
	Ideal float64 `json:"ideal"`
	// Running is the mean number of threads on this machine, of the run and of others, that
	// used a CPU or waited for one.
	Running float64 `json:"running"`
	// Still is the time, in seconds, in which not even the loop that watches the run went on, as
	// if the whole machine had been stopped. It is part of the losses.
	Still float64 `json:"still"`
	// Held is the integral of the slots that the run had, in slot-seconds.
	Held float64 `json:"held"`
	// Lost holds the slot-seconds of Held that did not go into kept steps, by the event
	// that had happened before.
	Lost map[cause]float64 `json:"lost"`
	// Again is the number of repeated steps.
	Again int `json:"again"`
	// Samples counts the samples that were not used exactly once per epoch. The script
	// counts uses in the weights of the model; Samples is nil if it does not.
	Samples *Uses `json:"samples,omitempty"`
	// Events are the disturbances of the run.
	Events []Happened `json:"events"`
	// Points are the first arrivals of steps at 1 s intervals, for the picture.
	Points []Point `json:"points"`
	// Ended states why a run ended early. It is empty if the run did all steps.
	Ended string `json:"ended,omitempty"`
}

// Uses counts, over all complete epochs, the samples that were not used and the uses beyond
// the first.
type Uses struct {
	Unused int `json:"unused"`
	Again  int `json:"again"`
	Epochs int `json:"epochs"`
}

// Happened is a disturbance as it happened.
type Happened struct {
	At    float64 `json:"at"`
	Cause cause   `json:"cause"`
	// Survived reports whether training went on by itself.
	Survived bool `json:"survived"`
}

// A Point is the number of steps at a time after the first step.
type Point struct {
	At   float64 `json:"at"`
	Step int     `json:"step"`
}

// Productive returns the share of the held slot-seconds that went into steps which were kept.
// It is the productive share as package usage defines it, computed from other sources.
func (r *Run) Productive() float64 {
	if r.Held == 0 {
		return 0
	}
	return float64(r.Steps) * stepWork / r.Held
}

// Survived returns how many disturbances training survived by itself.
func (r *Run) Survived() int {
	n := 0
	for _, e := range r.Events {
		if e.Survived {
			n++
		}
	}
	return n
}

// A capacity is the number of slots from a time on, in seconds since the first step.
type capacity struct {
	from  float64
	slots int
}

// held integrates the slots from a to b.
func held(slots []capacity, a, b float64) float64 {
	sum := 0.0
	for i, c := range slots {
		until := b
		if i+1 < len(slots) {
			until = min(b, slots[i+1].from)
		}
		if from := max(a, c.from); until > from {
			sum += float64(c.slots) * (until - from)
		}
	}
	return sum
}

// arrivals returns the time at which each step was made for the first time, in seconds
// since the first step. Entry i is the time of step i+1. A repeated step does not count as
// a new arrival, so the time that it takes counts for the step that follows.
func arrivals(r train.Record, wanted int) []float64 {
	var out []float64
	first := 0.0
	steps := r.Where("step", nil)
	slices.SortStableFunc(steps, func(a, b train.Event) int { return cmp.Compare(a.T, b.T) })
	for _, e := range steps {
		if e.Step <= len(out) || len(out) == wanted {
			continue
		}
		if len(out) == 0 {
			first = e.T
		}
		// A rank may die between a step and its record.
		for len(out) < min(e.Step, wanted) {
			out = append(out, e.T-first)
		}
	}
	return out
}

// account computes the times of a run from the times at which its steps arrived. end is the
// time at which a failed run was given up, or 0 if all steps were done.
func (r *Run) account(at []float64, slots []capacity, end float64) {
	r.Steps, r.Lost = len(at), map[cause]float64{}
	if len(at) == 0 {
		return
	}
	r.Wall = max(at[len(at)-1], end)
	// The first step's own time is before the first arrival.
	r.Held = stepWork + held(slots, 0, r.Wall)
	lose := func(from, to, work float64) {
		r.Lost[r.because(from, to)] += held(slots, from, to) - work
	}
	for i := 1; i < len(at); i++ {
		lose(at[i-1], at[i], stepWork)
	}
	if end > at[len(at)-1] {
		lose(at[len(at)-1], end, 0)
	}
	for i, t := range at {
		if len(r.Points) == 0 || t-r.Points[len(r.Points)-1].At >= 1 || i == len(at)-1 {
			r.Points = append(r.Points, Point{t, i + 1})
		}
	}
}

// because returns the cause of the time that is lost between two steps. It is the first
// event between them, because training had not continued when later ones happened. If there
// is none, it is the last event before them.
func (r *Run) because(from, to float64) cause {
	last := undisturbed
	for _, e := range r.Events {
		if e.At >= to {
			break
		}
		last = e.Cause
		if e.At >= from {
			break
		}
	}
	return last
}

// uses adds up what the weights of the model count at the ends of epochs. It returns nil if
// they count nothing.
func uses(r train.Record) *Uses {
	last := map[int]train.Event{} // an epoch that is repeated ends again
	for _, e := range r.Where("epoch", nil) {
		last[e.Epoch] = e
	}
	if len(last) == 0 {
		return nil
	}
	u := &Uses{Epochs: len(last)}
	for _, e := range last {
		u.Unused += e.Unused
		u.Again += e.Again
	}
	return u
}

// repeatedSteps counts the steps that rank 0 did more than once.
func repeatedSteps(r train.Record) int {
	again, reached := 0, 0
	for _, e := range r.Leading() {
		if e.Step <= reached {
			again++
		}
		reached = max(reached, e.Step)
	}
	return again
}
