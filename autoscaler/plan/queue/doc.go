// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package queue divides the slots of a pool between queues. It computes how many slots each
// queue is entitled to, and how many it may use now.
//
//	Queue (as written) ──> New ──> Tree ──> Layout ──> Divide ──> slots of each leaf
//	                        │       │          ↑          ↑
//	                     Problems  Assign   namespaces  Demand
//
// It is pure: no clock, no I/O, and nothing is remembered between two divisions. Amounts
// are whole slots, and weights are whole thousandths, so no use is too small to count.
//
// # Words
//
// A queue has a guarantee (slots that it gets whenever it wants them), a limit (slots
// that it never exceeds) and a weight (its share of the slots that are not guaranteed, or
// not used by their owner). A queue with queues inside divides its own slots between
// them by the same rule. Slots that a queue uses beyond its guarantee are borrowed.
//
// A queue's firm slots are those that cannot be taken back: the minima of its running
// jobs that are not preemptible.
//
// # Rules
//
//   - Limits hold, and all shares together are no more than there is.
//   - A queue gets as much of its guarantee as it wants. If nodes are gone and the
//     guarantees exceed the slots that are left, each guarantee is cut in proportion.
//   - The rest is divided in proportion to weights, up to the demand of each queue. So
//     slots that one queue does not want go to the queues that want more.
//   - Firm slots are never taken. In return, Reserve admits new firm slots only if all
//     unused guarantees still fit.
//   - With a half-life, the mean of the slots that a queue borrowed before is added to the
//     slots that it borrows now. A queue that has spent its budget has no guarantee, and
//     gets only slots that no other queue wants. Package ledger computes the mean and the
//     spent slot-hours, and Layout.Remember adds them to a division.
//
// A share depends on the queues' demand and on firm slots, not on who holds the other
// slots. So slots go back once: a second division, made after the first was carried out
// and before anything else changes, gives the same result.
package queue
