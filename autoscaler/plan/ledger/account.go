// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ledger

import (
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// Account holds the sums of the slots that a queue used. Times are in Unix seconds, and
// slots count by their cost.
type Account struct {
	At   float64 `json:"at"` // until when it is added up
	Rate         // since then

	HalfLife float64    `json:"half_life,omitempty"` // seconds; 0 remembers nothing
	Slots    float64    `json:"slots,omitempty"`     // borrowed, decayed; without their cost
	Mean     float64    `json:"mean,omitempty"`      // the same by cost
	Counts   queue.Past `json:"counts,omitzero"`     // both in thousandths, as divisions use them

	Per   queue.Period `json:"per,omitempty"`
	Since float64      `json:"since,omitempty"` // start of the period
	Spent float64      `json:"spent,omitempty"` // slot-hours since then

	live bool // the last charge was made by this process
}

// Rate holds the slots that a queue holds at one time.
type Rate struct {
	Used     float64 `json:"used,omitempty"`     // slots, by cost
	Borrowed float64 `json:"borrowed,omitempty"` // slots beyond the guarantee
	Cost     float64 `json:"cost,omitempty"`     // of these
}

func (r Rate) least(s Rate) Rate {
	return Rate{min(r.Used, s.Used), min(r.Borrowed, s.Borrowed), min(r.Cost, s.Cost)}
}

// charge adds the slots held since the last charge to the sums, and records those that are
// held now.
func (a *Account) charge(held Rate, now, longest float64) {
	passed := now - a.At
	switch {
	case passed < -Longest:
		a.At = now // it was charged by a clock that was wrong
	case passed > 0:
		counted := passed
		if !a.live || passed > longest {
			counted = min(passed, Longest)
			a.Rate = a.least(held)
		}
		a.pass(now, counted)
	}
	a.spend(now, 0)
	if a.HalfLife <= 0 {
		a.Slots, a.Mean, a.Counts = 0, 0, queue.Past{}
	}
	a.Rate, a.live = held, true
}

// pass advances the account to a later time. Of the time in between, only the last
// counted seconds count as use.
func (a *Account) pass(now, counted float64) {
	if a.HalfLife > 0 {
		unused, used := math.Exp2(-(now-a.At-counted)/a.HalfLife), math.Exp2(-counted/a.HalfLife)
		a.Slots = a.Borrowed + (a.Slots*unused-a.Borrowed)*used
		a.Mean = a.Cost + (a.Mean*unused-a.Cost)*used
		if s := step(a.HalfLife); math.Floor(now/s) != math.Floor(a.At/s) {
			a.Counts = queue.Past{Borrowed: thousandths(a.Slots), Cost: thousandths(a.Mean)}
		}
	}
	a.spend(now, counted)
	a.At = now
}

// spend adds the use in the last seconds to Spent, which it first resets if a new period
// has begun. Without a period, it changes nothing.
func (a *Account) spend(now, seconds float64) {
	if a.Per == "" {
		return
	}
	if start := a.Per.Start(now); start != a.Since {
		a.Since, a.Spent = start, 0
	}
	a.Spent += a.Used * min(seconds, now-a.Since) / 3600
}

func thousandths(slots float64) int {
	return int(math.Round(min(slots, queue.MostSlots) * queue.WeightUnit))
}

// Decayed returns the slot-hours that the queue borrowed, decayed by its half-life.
func (a *Account) Decayed() float64 { return a.Mean * a.HalfLife / math.Ln2 / 3600 }

// longestPeriod is the length of the longest month, in seconds.
const longestPeriod = 31 * 24 * 3600

// empty reports whether the account can be dropped, because a new one would have the same
// effect.
func (a *Account) empty(now float64) bool {
	return a.Used == 0 && a.Mean < 1e-6 && (a.Spent == 0 || now-a.Since > longestPeriod)
}

// step returns the number of seconds between two renewals of Counts.
func step(halfLife float64) float64 { return min(3600, halfLife/64) }
