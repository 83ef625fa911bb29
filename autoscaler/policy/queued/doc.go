// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package queued divides a pool between queues, and asks a policy in each queue as if
// that were its cluster.
//
//	            ┌─> admit ──> divide ──> ask the policy of each queue ──> cut ─┐
//	Snapshot ───┤    ↑          ↑                                             │
//	            │  limits     what queues                 what was not used ──┘
//	            │             want, and firm slots        is lent, and asked again
//	            └──────────────────────────────────────────> Decision
//
// Policy is itself a policy.Policy, so the simulator and the autoscaler run it like any
// other. Package queue and the bounds of the jobs decide what a queue may use; nothing
// that a job reports does. If a policy gives out more than its queue has, its answer is
// cut back, the youngest jobs first.
//
// # What is lent
//
// The first division assumes that each queue uses all slots that its jobs could. Slots that
// its policy leaves unused go to the other queues in further rounds: first to jobs that can
// start with them (jobs that hold workers now before others), and then by weight.
//
// # The past
//
// What queues used before is in Snapshot.Past. Policy itself remembers nothing of it, so a
// decision that is made twice counts once.
//
// # Reasons
//
// The reason of a job that waits begins with a word of package waiting.
package queued
