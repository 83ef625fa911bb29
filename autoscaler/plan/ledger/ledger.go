// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ledger

import (
	"maps"
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// Longest is the largest part of a gap between two charges, in seconds, that
// counts as use.
const Longest = 3600

// mostAccounts is the largest number of accounts in a ledger. A full ledger opens no more
// accounts.
const mostAccounts = 10_000

// Ledger holds the accounts of the queues of a pool, by queue.Layout.Key.
type Ledger map[string]*Account

// Use holds the slots that the jobs of a leaf hold.
type Use struct {
	Slots int
	Cost  float64 // of these slots together
}

// Charge brings the ledger up to date, and records the slots that queues hold from now on.
// layout has the guarantees that are in force now. use is indexed like the nodes of
// layout; only the entries of leaves count. If more than longest seconds have passed since
// the last charge, this time counts as a gap.
func (l Ledger) Charge(layout *queue.Layout, use []Use, now, longest float64) {
	sums := make([]Use, len(layout.Nodes))
	copy(sums, use)
	for n := len(sums) - 1; n > 0; n-- {
		up := &sums[layout.Nodes[n].Parent]
		up.Slots, up.Cost = up.Slots+sums[n].Slots, up.Cost+sums[n].Cost
	}
	charged := make(map[*Account]bool, len(l))
	for n := range layout.Nodes {
		node, u := &layout.Nodes[n], sums[n]
		if !node.Remembers() {
			continue
		}
		a := l[layout.Key(n)]
		if a == nil && (u.Slots == 0 || len(l) >= mostAccounts) {
			continue
		}
		if a == nil {
			a = &Account{At: now, live: true}
			l[layout.Key(n)] = a
		}
		a.HalfLife, a.Per = node.HalfLife, ""
		if node.Budget != nil {
			a.Per = node.Budget.Per
		}
		held := Rate{Used: u.Cost}
		if over := u.Slots - node.Guarantee; over > 0 {
			held.Borrowed, held.Cost = float64(over), u.Cost*float64(over)/float64(u.Slots)
		}
		a.charge(held, now, longest)
		charged[a] = true
	}
	maps.DeleteFunc(l, func(_ string, a *Account) bool {
		if !charged[a] {
			a.charge(Rate{}, now, longest) // it has no jobs, or is no longer configured
		}
		return a.empty(now)
	})
}

// Past returns the part of each account that divisions use, by its key.
func (l Ledger) Past() map[string]queue.Past {
	out := make(map[string]queue.Past, len(l))
	for key, a := range l {
		out[key] = queue.Past{Borrowed: a.Counts.Borrowed, Cost: a.Counts.Cost, Spent: a.Spent}
	}
	return out
}

// Next returns the earliest time at which a division may change although nothing has
// happened: a budget is spent, a period ends, or Counts is renewed. It assumes that queues
// keep their present slots. It returns 0 if there is no such time.
func (l Ledger) Next(layout *queue.Layout, now float64) (next float64) {
	soon := func(at float64) {
		if at > now && (next == 0 || at < next) {
			next = at
		}
	}
	for n := range layout.Nodes {
		node := &layout.Nodes[n]
		a := l[layout.Key(n)]
		if a == nil {
			continue
		}
		if a.HalfLife > 0 && (a.Borrowed > 0 || a.Counts.Cost > 0) {
			soon((math.Floor(now/step(a.HalfLife)) + 1) * step(a.HalfLife))
		}
		switch b := node.Budget; {
		case b == nil:
		case a.Spent >= b.SlotHours*(1-1e-9):
			soon(b.Per.End(now))
		case a.Used > 0:
			soon(now + max(1, 3600*(b.SlotHours-a.Spent)/a.Used))
		}
	}
	return next
}
