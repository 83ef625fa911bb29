// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package controller is the autoscaler daemon: it looks at the cluster, asks the
// policies, plans, and, where it leads, writes.
//
//	cluster.Watcher ─ View ─┐
//	ledger (the past) ──────┼─> round: policies ─> planner ─> writes (leader only)
//	control (users' wishes) ┘                         │
//	                                                  └─> Status (API, metrics, events)
//
// A round is made shortly after anything changed, when a plan asked to be
// woken, and now and then. Every agent makes rounds, so that followers can
// answer questions; only the leader's writes go out, each after a check that
// it still leads (package leader).
//
// # What is kept
//
// Jobs and counts are Nomad's. What Nomad does not keep is in the ledger:
// attained service, measured step times, what was last written. It is saved
// in Nomad variables under kolo/, in bounded size, and whatever is missing is
// estimated anew from the allocations that Nomad remembers. Losing it costs a
// policy some knowledge, and no job anything.
//
// # A job's way
//
//	         problems, switch off            completed
//	aside <──────────────────── seen ───────────────────> frozen
//	                             │  ^                       │ registered
//	           minimum fits now  v  │ suspended             │ again
//	                           running <────────────────────┘
package controller
