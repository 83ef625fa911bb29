// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster connects the autoscaler to Nomad: it reads Nomad's state as a View
// for the planner, and writes counts.
//
//	event stream ──(payloads, newer index wins)──┐
//	                                             v
//	lists: nodes, allocations, jobs, ──────>   store ──> View (planner.Cluster
//	scaling policies, blocked evaluations        ^        and the facts about jobs)
//	(blocking queries)                           │
//	                                   Writer: scale, keep, report
//
// The event stream is fast but incomplete: Nomad keeps a short buffer and drops older
// events silently. Therefore the lists are authoritative. The autoscaler reads them
// when it starts, when the stream breaks, and periodically if their index has moved;
// blocking queries cost nothing while nothing changes. A list that has been read
// replaces all entries of the store except those that are newer than the list.
//
// Only jobs with a kolo block (package jobspec) are read one by one. The resources of
// all other jobs are subtracted from the capacity.
package cluster
