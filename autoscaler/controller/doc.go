// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package controller is the control loop of the autoscaler: it observes the
// cluster, asks the policies, plans, and, where it leads, writes.
//
//	cluster.Watcher ─ View ──────────┐
//	history (jobs' past) ────────────┼─> round: policies ─> planner ─> apply (leader only)
//	store.Overrides (users' commands)┘                         │
//	                                                           └─> api.Status (API, metrics, events)
//
// A round is made shortly after anything changed, when a plan asked for it, and
// now and then. Every autoscaler makes rounds, so that followers can answer requests;
// only the leader's writes go out, each after a check that it still leads
// (package leader). External policies decide beside the rounds: one that takes
// its time delays no other pool, and its last decision stays in force.
//
// # What is kept
//
// Jobs and counts are Nomad's. What Nomad does not keep is in the history:
// attained service, measured step times, what was last written. Package store
// saves it; what is missing is estimated from the allocations that Nomad
// remembers.
//
// # A job's way
//
//	              problems, switch off            completed
//	ineligible <──────────────────── seen ───────────────────> frozen
//	                                  │  ^                       │ registered
//	                minimum fits now  v  │ suspended             │ again
//	                                running <────────────────────┘
package controller
