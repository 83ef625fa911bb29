// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package controller is the control loop of the autoscaler: it observes the
// cluster, asks the policies, plans and, on the leader, writes.
//
//	cluster.Watcher ─ View ──────────┐
//	history (jobs' past) ────────────┼─> round: policies ─> planner ─> apply (leader only)
//	store.Overrides (users' commands)┘                         │
//	                                                           └─> api.Status (API, metrics, events)
//
// A round takes place shortly after a change, at a time that the last plan requested, and
// at a fixed interval. Every autoscaler makes rounds, so that followers can answer
// requests. Only the leader writes, after checking before each write that it still leads
// (package leader). External policies decide outside the rounds: a slow one delays no other
// pool, and its last decision stays in force. Forecasts of when jobs start are also made
// outside of the rounds; no decision reads them.
//
// # State
//
// Nomad keeps jobs and counts. The history keeps the rest: attained service, measured step
// times, and the last writes. Package store saves it. Missing parts are estimated from the
// allocations that Nomad still has.
//
// # States of a job
//
//	              problems, switch off            completed
//	ineligible <──────────────────── seen ───────────────────> frozen
//	                                  │  ^                       │ registered
//	                minimum fits now  v  │ suspended             │ again
//	                                running <────────────────────┘
package controller
