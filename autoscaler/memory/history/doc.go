// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package history remembers facts about jobs that Nomad does not keep: their attained
// service, their step times at each size, and Kolo's last writes to them. It also holds the
// accounts of queues (package ledger). It is pure: no I/O, no clock of its own.
//
//	Observation (Nomad) ── Observe ──> Job ── Points ──┐
//	Progress (training) ── Learn ────> │               ├─ Curve ─> policy
//	                                   └─> Kind ───────┘
//
// # Step times
//
// A Measurement is the mean of the steps at one size; it follows a training that gets
// slower or faster. Measurements that argue against growth expire: after 10 minutes the
// first time, doubling with each trial up to a week. Jobs of one kind learn from each other
// how they scale.
//
// Trainings report their own step times. A reported time counts only if Nomad saw the job
// at that size, and only for as many steps as fit into the time spent there. A curve that
// scales better than linearly counts as linear. The cost of a resize is learned only from
// resizes that the autoscaler wrote.
//
// # Loss
//
// Package store saves a History. If it is lost, attained service and times are estimated
// from the workers that Nomad remembers: policies lose some knowledge, jobs lose nothing.
//
// # Completion
//
//	          a worker completes
//	running ──────────────────────> frozen
//	   ^      registered again         │
//	   └───────────────────────────────┘
package history
