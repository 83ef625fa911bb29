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
// nodes (package placement). A job grows on the nodes that it is on already, then on the
// node where the new workers fit best. It shrinks by its newest workers first, as in Nomad.
// If a node fails, its workers are lost, and their job goes back to its last commit. A
// withdrawn node loses no step. Info states what a policy knows: whether it knows the
// remaining work, and whether it knows exact curves or only noisy measurements at sizes at
// which the job has run. A job that adapts its batch size has one true curve for each phase
// of its training (trace.Goodput).
//
// # What is not modelled
//
// Starting a worker takes no time beyond the gap. Jobs do not slow each other
// down. A job never fails on its own.
package sim
