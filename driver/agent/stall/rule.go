// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stall

import (
	"fmt"
	"time"
)

const (
	// Floor is the shortest limit of a step.
	Floor = 5 * time.Second
	// Young is the shortest limit in a ring that has made fewer than Enough steps, because
	// it may compile or start its data loader.
	Young = time.Minute
	// Factor times the slowest recent step is how long a step may take.
	Factor = 20
	// Again times the longest step of the job is how long a step may take, too. So a
	// recurring pause, such as an evaluation, is within the limit after it has happened
	// once.
	Again = 2
	// Window is the number of recent steps among which the slowest counts.
	Window = 100
	// Enough is the number of steps after which the steps of a ring count.
	Enough = 20
)

// Rule learns how long the steps of a job's rings take. The zero Rule is for a job that has
// made no step.
type Rule struct {
	recent  []made        // steps of this ring, at least Window if there are as many
	steps   int           // in recent
	before  time.Duration // slowest recent step of the last ring that had Enough, 0 if none had
	longest time.Duration // longest step, or broken stall, of the job
}

// made is a number of steps, of which the slowest took a time.
type made struct {
	steps   int
	slowest time.Duration
}

// Formed starts a new ring.
func (r *Rule) Formed() {
	if r.steps >= Enough {
		r.before = r.slowest()
	}
	r.recent, r.steps = nil, 0
}

// Made adds a number of steps of the ring, and the time that the slowest of them took.
func (r *Rule) Made(steps int, slowest time.Duration) {
	if steps <= 0 || slowest <= 0 {
		return
	}
	r.longest = max(r.longest, slowest)
	r.recent = append(r.recent, made{min(steps, Window), slowest})
	r.steps += min(steps, Window)
	for r.steps-r.recent[0].steps >= Window {
		r.steps -= r.recent[0].steps
		r.recent = r.recent[1:]
	}
}

// Broke records that the ring was broken after a time without a step, and that no process
// was found to be the cause. The pause may have been one of the script, so the next pause
// of this length is within the limit.
func (r *Rule) Broke(after time.Duration) { r.longest = max(r.longest, after) }

func (r *Rule) slowest() time.Duration {
	slowest := time.Duration(0)
	for _, m := range r.recent {
		slowest = max(slowest, m.slowest)
	}
	return slowest
}

// Limit states how long a step may take.
type Limit struct {
	After time.Duration
	// Compared states from which steps the limit was derived, for messages.
	Compared string
}

// Limit returns the limit of the ring's next step. It is unknown until one ring of the job
// has made Enough steps.
func (r *Rule) Limit() (limit Limit, known bool) {
	switch {
	case r.steps >= Enough:
		slowest := r.slowest()
		limit.After = max(Floor, Factor*slowest)
		limit.Compared = fmt.Sprintf("the slowest of the last %d took %s", min(r.steps, Window), Seconds(slowest))
	case r.before > 0:
		limit.After = max(Young, Factor*r.before)
		limit.Compared = "the slowest of the last ring took " + Seconds(r.before)
	default:
		return Limit{}, false
	}
	if again := Again * r.longest; again > limit.After {
		limit.After = again
		limit.Compared = "the longest pause of the job took " + Seconds(r.longest)
	}
	return limit, true
}

// Seconds formats a duration for messages: "0.26 s", "31 s".
func Seconds(d time.Duration) string {
	s := d.Seconds()
	switch {
	case s < 1:
		return fmt.Sprintf("%.2f s", s)
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	default:
		return fmt.Sprintf("%.0f s", s)
	}
}
