// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package sim runs scheduling policies in virtual time, with the same policy
// code that the autoscaler runs live.
//
//	trace ──> arrivals ─┐
//	        node events ─┼─> next instant ─> policy.Snapshot ─> Allocate ─┐
//	      completions ───┤                                                │
//	      measurements ──┤        ┌── shrink, then place and grow <───────┘
//	           wake-ups ─┘        └─> new completion times
//
// Run is event-driven: time jumps from one event to the next. All events of one instant
// are handled before the policy is asked once. A job's completion time is computed, not
// reached in steps. RunTicks instead decides at fixed ticks, by the rules of published
// count-level replays, so that results can be compared digit by digit. Sweep runs many
// policies, loads, resize costs and seeds in parallel.
//
// # What is modelled
//
// A job makes steps at the rate of its true curve at its present size. A start or a resize
// costs a gap in which the job holds its GPUs and makes no step (ResizeCost).
//
// Workers are on nodes (package placement). A job grows on its own nodes first, and then
// on those where it fits best. It shrinks by its newest workers first, as in Nomad. A node
// that fails ends its workers and takes their jobs back to the last commit. Workers leave a
// withdrawn node without losing steps.
//
// Info selects the information of a policy: remaining work or not, and exact curves or
// only measurements, with noise, at sizes that the job has had.
//
// # What is not modelled
//
// Starting a worker takes no time beyond the gap. Jobs do not slow each other
// down. A job never fails on its own.
package sim
