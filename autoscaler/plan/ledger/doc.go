// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package ledger adds up what queues use over time: for shares that are fair over time,
// and for budgets. It is pure: the caller says what time it is.
//
//	slots held now ── Charge ──> Ledger ── Past ──> queue.Layout.Remember
//	                               │ ^
//	                               v │
//	                            saved with the history
//
// # What counts
//
// An account holds amounts per second until a time, its At. The next Charge adds them up
// until then, exactly once: an account that is charged twice at one time does not change.
// Nothing is charged in advance and given back later. What a queue is given counts in the
// same division, because the division adds what a queue borrows now to its past.
//
// Slots count by their cost. Slots within a guarantee are free in the mean of what was
// borrowed, and count in the budget.
//
// # Decay
//
// Mean follows what a queue borrows: half of a difference is gone after the half-life. It
// is never rounded. Divisions use Counts, a copy in thousandths of slots that is renewed at
// fixed steps of time, the same for all queues of one half-life. So shares change at steps
// only, by a small part of the pool, and a slot that two queues deserve equally passes
// between them no faster than that.
//
// # Gaps
//
// An account that was saved, or not charged for long, does not know what its queue held
// meanwhile. Then the smaller amount counts of what it held before and holds now, for the
// last hour at most. The rest of such a gap counts as time without use.
package ledger
