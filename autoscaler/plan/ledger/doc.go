// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package ledger keeps an account of the slots that each queue uses over time. Shares with
// a half-life and budgets depend on it. It is pure: the caller passes the time.
//
//	slots held now ── Charge ──> Ledger ── Past ──> queue.Layout.Remember
//	                               │ ^
//	                               v │
//	                            saved with the history
//
// # What counts
//
// An account contains sums up to a time, At, and the slots that the queue has held since
// then. The next Charge adds these for the time that has passed, exactly once: a second
// charge at the same time changes nothing. Nothing is charged in advance and given back
// later. Slots that a queue gets count at once, because the division adds the slots that a
// queue borrows now to its past.
//
// Slots count by their cost. Slots within the guarantee count for the budget, but not for
// the mean of borrowed slots.
//
// # Decay
//
// Mean approaches the slots that a queue borrows now: after one half-life, half of the
// difference remains. It is never rounded. Divisions use Counts, a copy in thousandths of
// slots. It is renewed at fixed times, which are the same for all queues with the same
// half-life. So shares change only at these times, and only by a small part of the pool. A
// slot to which two queues have the same right moves between them only then.
//
// # Gaps
//
// After an account was loaded, or was not charged for long, the slots that its queue held
// meanwhile are unknown. For the last hour of such a gap, the account counts the slots
// that the queue held before the gap or holds now, whichever are fewer. The rest of the
// gap counts as time without use.
package ledger
