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
// Run is event-driven: time jumps from event to event, the policy is asked once after all
// events of an instant, and completion times are computed, not stepped to. RunTicks instead
// decides at fixed ticks by the rules of published count-level replays, so that numbers can
// be compared to the digit. Sweep runs many policies, loads, resize costs and seeds in
// parallel.
//
// # What is modelled
//
// A job makes steps at the rate of its true curve at its current size. A start or a resize
// costs a gap in which it holds its GPUs and makes no step (ResizeCost). Workers are on
// nodes (package placement). Growth goes where the job is already, then where it fits best;
// shrinking takes the newest workers first, as Nomad does. A node that fails takes its
// workers with it, and the job back to its last commit; a withdrawn node loses no step.
// Info is what a policy knows: remaining work or not, and exact curves or only what was
// measured, with noise, at sizes the job has run at.
//
// # What is not
//
// Starting a worker takes no time beyond the gap. Jobs do not slow each other
// down. A job never fails on its own.
package sim
