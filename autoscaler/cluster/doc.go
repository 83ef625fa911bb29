// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster is the autoscaler's edge to Nomad: it reads Nomad's state, as a
// View for the planner, and writes counts.
//
//	event stream ──(payloads, newer index wins)──┐
//	                                             v
//	lists: nodes, allocations, jobs, ──────>   store ──> View (planner.Cluster
//	scaling policies, blocked evaluations        ^        and the facts about jobs)
//	(blocking queries)                           │
//	                                   Writer: scale, keep, report
//
// The event stream is fast but incomplete: Nomad keeps a short buffer and drops
// older events silently. So the lists are authoritative. They are read when the
// autoscaler starts, when the stream breaks, and periodically if their index has moved;
// while nothing changes a blocking query costs nothing. A list replaces everything
// that is not newer than itself.
//
// Only jobs with a kolo block (package jobspec) are read one by one. What others
// hold is subtracted from the capacity.
package cluster
