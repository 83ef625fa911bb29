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
// Policy is itself a policy.Policy, so the simulator and the autoscaler run it as any
// other. What a queue may use follows from package queue, from the bounds of its jobs and
// from nothing that a job reports. A policy that gives more than its queue has is cut
// back to it, the youngest jobs first.
//
// # What is lent
//
// The first division counts on each queue to use all that its jobs could. What its policy
// then does not use goes to the other queues in further rounds: first to jobs that start
// with it, those first that hold workers now, and then by weight.
//
// # Reasons
//
// The reason of a job that waits begins with a word of package waiting.
package queued
