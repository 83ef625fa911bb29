// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package planner turns the counts that a policy wants into writes that are
// safe to make now.
//
//	Cluster (current)  ─┐
//	Wants   (policy)   ─┼─> Plan ─> Actions, in the order to be written
//	Options, now       ─┘           Waits, with reasons and until when
//
// It is pure: the clock is an argument and nothing is remembered between two calls. Facts
// from the past, such as when a job last changed or that a placement failed, are fields of
// Job, which the caller keeps.
//
// # Guarantees
//
// For any wants, valid or not, and for anything that happens between two plans:
//
//   - Capacity: the workers that exist or may be placed never need more than the nodes
//     have. Shrinks are written first; the room that they free is given out only when Nomad
//     reports that the allocations have ended.
//   - Minimum: a running job keeps at least its minimum, unless it is suspended. Only
//     preemptible jobs are suspended.
//   - Gang: a job starts only when its minimum fits, now and on real nodes. If its first
//     workers find no place after all, it goes back to none.
//   - Ratio: groups in a ratio (Job.Ratio) have whole units of workers. If a crash between
//     two writes broke one, the next plan repairs that before it does anything else to the
//     job.
//   - Frozen: after one of its workers has completed, a job is never touched again
//     (Nomad would run the completed workers a second time).
//   - Hold: after a change, a job does not change again for its hold time, except for the second
//     half of a move, and to give back a spare or what its queue borrowed. It does not change
//     either while a worker is on an unhealthy node, while a deployment runs, and while a count
//     that a user set by hand is honoured.
//   - Locality: a job may be forbidden to cross a level of its pool's topology. Unless it
//     does so already, it gets no worker in another domain of that level.
//   - Moves: a move begins only if no job waits for room that is about to become free, and
//     only if the gain is above the cost. During a move, the job keeps its size or has
//     another of its allowed sizes.
//   - Conditional: every write carries the modify index that it was planned for.
//
// A policy's decision must pass policy.Validate, but the planner does not rely on that,
// because the cluster may have changed since the decision. The caller ensures that only the
// elected leader writes.
//
// # How counts become placements
//
// Nomad chooses the node of a worker, the planner only the count of a group. To check that
// workers fit, it places them itself (package placement) on a copy of the free capacity. It
// keeps the workers of a job together: it fills the groups that hold most of the job first,
// and then as few other groups as possible.
//
// If workers find no room after all, because Nomad places differently or the nodes of their
// group are gone, they are relocated after Options.PlacementTimeout to another group of the
// job that has room. If there is none, they are rolled back. Their group does not grow for
// Options.PlacementRetry. Workers that have a place move only as described below.
//
// In a pool with a topology, a group that is bound to one domain (Group.Path) is the unit
// of placement, and Job.Locality is the rule. Such jobs start in the smallest domain that
// holds the wanted size, grow where they are, and leave whole domains, except where other
// placements are known to be faster (placement.GrowFaster, placement.ReleaseFaster). Jobs
// without a locality, such as all jobs in other pools, are planned as above.
//
// A pool that packs (Cluster.Packed) prefers to leave nodes empty. That decides in which
// groups a job shrinks and grows; in a pool with a topology, it decides only between groups
// that are equal by the topology. Packing never changes how many workers a job has.
//
// # Spares
//
// All counts are numbers of workers that train. A job may have more workers, its spares
// (Job.Spare), which wait outside the ring. Plans are made as if their slots were free, except
// that no worker can be placed there. A spare is given back as soon as a job needs more room
// than there is, and added when no job of the pool needs any. A job that grows waits for the
// room of spares, because one resize is better than two. Only the steps of an action count
// spares, too.
//
// A job asks for its spares itself, or its pool lends them (Job.Lent). A pool lends at most
// Cluster.Lends slots, to the jobs with the highest priority and then to the oldest jobs. A
// spare stays with its job until it is given back.
//
// # Room for growth
//
// Shortages returns how many workers of each job find no room, and NodeClasses how many
// more nodes would hold them, for a cluster autoscaler. Both only read a plan.
//
// # Moves
//
// Package migrate decides which workers move, by measurements (Job.Mobility). A move is two
// actions. In the first, the job grows into free room or, if it may not be larger, shrinks.
// The caller keeps the move (Action.Moving) and passes it in again (Job.Moving). In the
// second, the job releases the old workers once the new ones train, or gets the new ones
// once there is room. Room that a move still needs is reserved for it, so no other job
// grows into that room. A move that makes no progress is undone or forgotten. The job then
// grows or shrinks to its size like any other job.
//
// A job that must not cross a level moves only inside its domain of that level, because
// halfway through any other move it would be in two domains.
package planner
