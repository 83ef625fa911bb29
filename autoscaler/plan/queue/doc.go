// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package queue divides the slots of a pool between queues: what each is
// entitled to, and what it may use now.
//
//	Queue (as written) ──> New ──> Tree ──> Layout ──> Divide ──> slots of each leaf
//	                        │       │          ↑          ↑
//	                     Problems  Assign   namespaces  Demand
//
// It is pure: no clock, no I/O, nothing is remembered between two divisions. All
// amounts are whole slots, and weights whole thousandths: no use is too small to count.
//
// # Words
//
// A queue has a guarantee (slots that it has whenever it wants them), a limit (slots
// that it never exceeds) and a weight (its share of what no one is guaranteed, or does
// not use). A queue that holds others divides its own slots between them by the same
// rule. What a queue uses beyond its guarantee is borrowed.
//
// A queue's firm slots are those that cannot be taken back: the minima of its running
// jobs that are not preemptible.
//
// # Rules
//
//   - Limits hold, and all shares together are no more than there is.
//   - A queue gets what it wants of its guarantee. If nodes are gone and the guarantees
//     are more than what is left, each is cut in proportion.
//   - The rest is divided in proportion to weights, up to what each queue wants. So the
//     slots that one queue does not want go to those that want more.
//   - Firm slots are never taken. In return, Reserve admits new ones only where all
//     unused guarantees still fit.
//
// A share depends on what queues want and on what is firm, not on who holds the other
// slots. So slots go back once: until something changes from outside, a second division
// after the first was carried out is the same.
package queue
