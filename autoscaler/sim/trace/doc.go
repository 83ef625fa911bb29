// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package trace holds the workloads that the simulator replays: jobs with their arrival,
// bounds and true step times, and failures and withdrawals of nodes. It reads published
// trace formats and Kolo's own event log, and generates synthetic workloads.
//
//	Pollux CSV ─┐
//	Voda CSV  ──┤
//	Philly ─────┤
//	Helios ─────┼─> Read ─> Trace ─> (Scale, Permute) ─> simulator
//	ElasticFlow ┤
//	Acme ───────┤
//	Alibaba ────┤
//	event log ──┤
//	Synthetic ──┘
//
// A trace holds the true values, which only the simulator knows. The simulator decides
// which of them a policy learns.
package trace
