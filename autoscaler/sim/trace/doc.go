// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package trace holds the workloads that the simulator replays: jobs with
// their arrival, bounds and true step times, and the events of nodes. It reads the formats
// of published traces and Kolo's own event log, and makes synthetic workloads.
//
//	Pollux CSV ─┐
//	Voda CSV  ──┤
//	Philly ─────┤
//	Helios ─────┼─> Read ─> Trace ─> (Scale, Permute) ─> simulator
//	ElasticFlow ┤
//	event log ──┤
//	Synthetic ──┘
//
// A trace has the true properties of jobs. The simulator decides which of them a policy
// sees.
package trace
