// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package history keeps the facts about jobs that Nomad does not keep: how much service
// they have had, how long their steps take at each size, and the last writes to them. It is
// pure: it does no I/O and reads no clock.
//
//	Observation (Nomad) ── Observe ──> Job ── Points ──┐
//	Progress (training) ── Learn ────> │               ├─ Curve ─> policy
//	                                   └─> Kind ───────┘
//
// # Step times
//
// A Measurement is the mean time of the steps at one size. It follows a training that gets
// slower or faster. Measurements that argue against growth expire: after 10 minutes the
// first time, doubling with each trial up to a week. Jobs of one kind learn from each other
// how they scale.
//
// Trainings report their own times. A time counts only if Nomad saw the job at that size,
// and only for as many steps as fit into the time at that size. A curve that scales better
// than perfectly counts as perfect. Only resizes that the autoscaler wrote count for the
// cost of a resize.
//
// # Loss of the history
//
// Package store saves a History. If it is lost, attained service and times are estimated
// from the workers that Nomad still has. Policies then know less, but no job is harmed.
//
// # Completion
//
//	          a worker completes
//	running ──────────────────────> frozen
//	   ^      registered again         │
//	   └───────────────────────────────┘
package history
