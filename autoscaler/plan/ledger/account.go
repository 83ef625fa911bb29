// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ledger

import (
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// Account is what a queue used. Times are Unix seconds, and slots count by their cost.
type Account struct {
	At       float64 `json:"at"`                 // until when it is added up
	Used     float64 `json:"used,omitempty"`     // slots held since then
	Borrowed float64 `json:"borrowed,omitempty"` // of these, slots beyond the guarantee

	HalfLife float64 `json:"half_life,omitempty"` // seconds; 0 remembers nothing
	Mean     float64 `json:"mean,omitempty"`      // slots borrowed, decayed
	Counts   int     `json:"counts,omitempty"`    // Mean in thousandths, as divisions use it

	Per   queue.Period `json:"per,omitempty"`
	Since float64      `json:"since,omitempty"` // start of the period
	Spent float64      `json:"spent,omitempty"` // slot-hours since then

	live bool // the last charge was made by this process
}

// charge adds up what was held since the last charge, and notes what is held now.
func (a *Account) charge(used, borrowed, now, longest float64) {
	passed := now - a.At
	switch {
	case passed < -Longest:
		a.At = now // it was charged by a clock that was wrong
	case passed > 0:
		counted := passed
		if !a.live || passed > longest {
			counted = min(passed, Longest)
			a.Used, a.Borrowed = min(a.Used, used), min(a.Borrowed, borrowed)
		}
		a.pass(now, counted)
	}
	a.spend(now, 0)
	if a.HalfLife <= 0 {
		a.Mean, a.Counts = 0, 0
	}
	a.Used, a.Borrowed, a.live = used, borrowed, true
}

// pass moves the account on to a later time. Of the time between, the last counted seconds
// count as used.
func (a *Account) pass(now, counted float64) {
	if a.HalfLife > 0 {
		a.Mean *= math.Exp2(-(now - a.At - counted) / a.HalfLife)
		a.Mean = a.Borrowed + (a.Mean-a.Borrowed)*math.Exp2(-counted/a.HalfLife)
		if s := step(a.HalfLife); math.Floor(now/s) != math.Floor(a.At/s) {
			a.Counts = int(math.Round(min(a.Mean, queue.MostSlots) * queue.WeightUnit))
		}
	}
	a.spend(now, counted)
	a.At = now
}

// spend adds the last seconds to what was spent in the present period. Without a period, it
// keeps what was spent.
func (a *Account) spend(now, seconds float64) {
	if a.Per == "" {
		return
	}
	if start := a.Per.Start(now); start != a.Since {
		a.Since, a.Spent = start, 0
	}
	a.Spent += a.Used * min(seconds, now-a.Since) / 3600
}

// Decayed returns the slot-hours borrowed, decayed.
func (a *Account) Decayed() float64 { return a.Mean * a.HalfLife / math.Ln2 / 3600 }

// longestPeriod is that of a month, in seconds.
const longestPeriod = 31 * 24 * 3600

// empty reports whether the account says nothing that a new one would not say, for any
// queue that may have it.
func (a *Account) empty(now float64) bool {
	return a.Used == 0 && a.Mean < 1e-6 && (a.Spent == 0 || now-a.Since > longestPeriod)
}

// step is how many seconds pass between two renewals of Counts.
func step(halfLife float64) float64 { return max(60, min(3600, halfLife/64)) }
