// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package history remembers what Nomad does not keep of jobs: how much service
// they have had, how long their steps take at each size, and what was last
// written to them. It is pure: no I/O, no clock of its own.
//
//	Observation (Nomad) ── Observe ──> Job ── Points ──┐
//	Progress (training) ── Learn ────> │               ├─ Curve ─> policy
//	                                   └─> Kind ───────┘
//
// # Step times
//
// A Measurement is the mean of the steps at one size; it follows a training that
// gets slower or faster. Measurements that argue against growth expire: after 10
// minutes the first time, doubling with each trial up to a week. Jobs of one
// kind learn from each other how they scale.
//
// Trainings report their own times. One counts if Nomad saw the job at its size, and
// for as many steps as fit into the time that it had it; a curve that scales better
// than perfectly counts as perfect. Of resizes only those that the autoscaler wrote
// count as the cost of one.
//
// # Loss
//
// Package store saves a History. Where it is lost, attained service and times
// are estimated from the workers that Nomad remembers: policies lose some
// knowledge, and no job anything.
//
// # Completion
//
//	          a worker completes
//	running ──────────────────────> frozen
//	   ^      registered again         │
//	   └───────────────────────────────┘
package history
