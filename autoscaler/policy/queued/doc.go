// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package queued divides a pool between queues, and asks a policy in each queue as if the
// queue were the whole cluster.
//
//	            ┌─> admit ──> divide ──> ask the policy of each queue ──> cut ─┐
//	Snapshot ───┤    ↑          ↑                                             │
//	            │  limits     what queues                 what was not used ──┘
//	            │             want, and firm slots        is lent, and asked again
//	            └──────────────────────────────────────────> Decision
//
// Policy is itself a policy.Policy, so the simulator and the autoscaler run it like any
// other. What a queue may use is computed by package queue from the bounds of the jobs, and
// does not depend on anything that jobs report. If a policy gives out more slots than its
// queue has, its answer is cut back, the youngest jobs first.
//
// # What is lent
//
// The first division assumes that each queue uses all slots that its jobs could use. Slots
// that its policy leaves unused go to the other queues in further rounds. Jobs that can
// start with them come first, and among these, jobs that hold workers now. The rest is
// divided by weight.
//
// # The past
//
// Snapshot.Past holds what queues used before. Policy itself does not remember it, so a
// decision that is made twice counts only once.
//
// # Reasons
//
// The reason of a waiting job begins with one of the words of package waiting.
package queued
