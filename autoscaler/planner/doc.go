// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package planner turns the counts that a policy wants into writes that are
// safe to make now.
//
//	Cluster (what is)  ─┐
//	Wants   (policy)   ─┼─> Plan ─> Actions, in the order to be written
//	Options, now       ─┘           Waits, with reasons and until when
//
// It is pure: the clock is an argument and nothing is remembered between two
// calls. Whatever it has to know about the past (when a job last changed, that
// a placement failed) is a field of Job, which the caller keeps.
//
// # Guarantees
//
// Whatever a policy wants, and whatever happens between two plans:
//
//   - Capacity: the workers that exist or may be placed never need more than
//     the nodes have. Shrinks are written first; what they free is given out
//     only when Nomad says that the allocations have ended.
//   - Minimum: a job keeps at least its minimum while it runs, unless it is
//     suspended, and only suspendable jobs are.
//   - Gang: a job starts only when its minimum fits, now and on real nodes.
//   - Frozen: a job one of whose workers has completed is never touched again
//     (Nomad would run the completed workers a second time).
//   - Hold: a job is left alone for its hold time after a change, while a
//     worker sits on an unhealthy node, while a deployment runs, and while a
//     wish that a user wrote by hand is being honoured.
//   - Conditional: every write carries the modify index it was planned for.
//
// Only the elected leader writes; that is the caller's part.
//
// # How counts become placements
//
// Nomad chooses the node of a worker, the planner only the count of a group. It
// checks that the workers fit by placing them itself on a copy of the free
// room, workers of a job together: groups of the job that hold most of it
// already first, then the fewest groups. Where a worker finds
// no room after all (Nomad places differently, or the nodes of its group are
// gone), it is moved after Options.PlacementTimeout to another group of the job
// that has room, or else taken back, and its group does not grow for
// Options.PlacementRetry. Workers that have a place are never moved from group
// to group: it would cost a resize, and nobody has measured what it gains.
package planner
