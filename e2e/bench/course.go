// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A Course describes the training steps from the request for a change to the end of
// the change, as rank 0 measured them. Times are in seconds.
type Course struct {
	// Pause is the longest time between two steps, minus a usual step of the same
	// ring. (With long steps, the gap would mostly consist of one step.)
	Pause float64 `json:"pause"`
	// Switch is the interval in which the ring changed, minus a usual step of the
	// new ring. If Pause is longer, a step before or after was slow.
	Switch float64 `json:"switch"`
	// Before and After are usual step times of both rings.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Slower is how much longer a step took while newcomers received state, as a
	// fraction of a usual step, and Receiving how long they received. Both are 0 if
	// no newcomers received state while others trained.
	Slower    float64 `json:"slower,omitempty"`
	Receiving float64 `json:"receiving,omitempty"`
}

func (c Course) String() string {
	text := fmt.Sprintf(", pause %.2f s, %.2f s at the switch", c.Pause, c.Switch)
	if c.Receiving > 0 {
		text += fmt.Sprintf(", steps %.0f %% longer for %.1f s", c.Slower*100, c.Receiving)
	}
	return text
}

// afterChange is the number of steps after which a change counts as complete.
const afterChange = 10

// courseOf returns the course from the request of a change. first is the first step
// of the new ring.
func courseOf(r train.Record, asked time.Time, first train.Event) Course {
	steps := r.Leading()
	from := slices.IndexFunc(steps, func(e train.Event) bool { return e.Time().After(asked) })
	changed := slices.IndexFunc(steps, func(e train.Event) bool { return e.T == first.T })
	if from < 1 || changed < from {
		return Course{}
	}
	over := min(changed+afterChange, len(steps)-1)
	before, after := intervals(steps[max(0, from-50):from]), intervals(steps[changed:over+1])
	if len(before) == 0 || len(after) == 0 {
		return Course{}
	}
	c := Course{Before: median(before), After: median(after)}
	c.Switch = max(0, steps[changed].T-steps[changed-1].T-c.After)
	for i := from; i <= over; i++ {
		usual := c.Before
		if i >= changed {
			usual = c.After
		}
		c.Pause = max(c.Pause, steps[i].T-steps[i-1].T-usual)
	}
	// When newcomers begin to receive, the old members form another ring.
	begun := slices.IndexFunc(steps[:changed], func(e train.Event) bool { return e.Generation > steps[from-1].Generation })
	if begun >= 0 {
		c.Receiving = steps[changed-1].T - steps[begun].T
		if received := intervals(steps[begun:changed]); len(received) > 0 {
			c.Slower = c.Receiving/float64(len(received))/c.Before - 1
		}
	}
	return c
}

// intervals returns the times between consecutive steps, in seconds.
func intervals(steps train.Record) []float64 {
	var times []float64
	for i := 1; i < len(steps); i++ {
		times = append(times, steps[i].T-steps[i-1].T)
	}
	return times
}
