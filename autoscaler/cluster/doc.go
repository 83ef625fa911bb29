// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster is the autoscaler's edge to Nomad: what Nomad says, as a
// View that the planner understands, and what it is told.
//
//	event stream ──(payloads, newer index wins)──┐
//	                                             v
//	lists: nodes, allocations, jobs, ──────>   store ──> View (planner.Cluster
//	scaling policies, blocked evaluations        ^        and the facts about jobs)
//	(blocking queries)                           │
//	                                   Writer: scale, keep, report
//
// The event stream is fast but not complete: Nomad keeps a short buffer and
// drops what is older without a sign. So the lists are the truth. They are
// read when the agent starts, when the stream breaks, and again after a while
// if their index has moved; while nothing changes a blocking query costs
// nothing. A list replaces everything that is not newer than itself.
//
// Only jobs that ask for it (package jobspec) are read one by one. Everything
// that others hold is taken off the capacity.
package cluster
