// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package trace holds the workloads that the simulator replays: jobs with
// their arrival, bounds and true step times, and what happens to the nodes
// below them. It reads the formats that the field publishes its traces in,
// and Kolo's own event log, and makes synthetic workloads.
//
//	Pollux CSV ─┐
//	Voda CSV  ──┤
//	Philly ─────┤
//	Helios ─────┼─> Read ─> Trace ─> (Scale, Permute) ─> simulator
//	ElasticFlow ┤
//	event log ──┤
//	Synthetic ──┘
//
// A trace is the truth that the simulator knows. What a policy is notified of it
// is the simulator's business.
package trace
