// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package stall

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// Floor is the shortest limit of a step.
	Floor = 5 * time.Second
	// Young is the shortest limit in a ring that has made fewer than Enough steps, because
	// it may compile or start its data loader.
	Young = time.Minute
	// Factor is the limit of a step as a multiple of the slowest recent step.
	Factor = 20
	// StoppedFloor is the shortest limit of a step while a signal has stopped a process of the
	// ring. It is short, also in a young ring, because the ring makes no step until the process
	// is continued.
	StoppedFloor = 2 * time.Second
	// StoppedFactor is the limit of such a step as a multiple of the median of the recent
	// steps, so that a single slow step does not count.
	StoppedFactor = 5
	// Again is a factor: a step may always take Again times as long as the longest step of the
	// job, even if Factor allows less. So a recurring pause, such as an evaluation, is within
	// the limit after it has happened once.
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
	usual   time.Duration // median of these steps
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
		r.before, r.usual = r.slowest(), r.median()
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

// StoppedLimit returns the limit of the ring's next step if a signal has stopped one of its
// processes. known is the same as for Rule.Limit.
func (r *Rule) StoppedLimit() (limit Limit, known bool) {
	usual, compared := r.usual, "the median of the last ring was "
	if r.steps >= Enough {
		usual, compared = r.median(), fmt.Sprintf("the median of the last %d was ", min(r.steps, Window))
	}
	return Limit{max(StoppedFloor, StoppedFactor*usual), compared + Seconds(usual)}, usual > 0
}

// median returns the median of the recent steps, each counted as the slowest one of its
// report.
func (r *Rule) median() time.Duration {
	sorted := slices.SortedFunc(slices.Values(r.recent), func(a, b made) int { return cmp.Compare(a.slowest, b.slowest) })
	seen := 0
	for _, m := range sorted {
		if seen += m.steps; 2*seen >= r.steps {
			return m.slowest
		}
	}
	return 0
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
