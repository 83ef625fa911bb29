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
// calls. What it has to know of the past (when a job last changed, that a
// placement failed) is a field of Job, which the caller keeps.
//
// # Guarantees
//
// For any wants, valid or not, and for anything that happens between two plans:
//
//   - Capacity: the workers that exist or may be placed never need more than
//     the nodes have. Shrinks are written first; what they free is given out
//     only when Nomad reports that the allocations have ended.
//   - Minimum: a job keeps at least its minimum while it runs, unless it is
//     suspended, and only preemptible jobs are.
//   - Gang: a job starts only when its minimum fits, now and on real nodes.
//   - Frozen: a job one of whose workers has completed is never touched again
//     (Nomad would run the completed workers a second time).
//   - Hold: a job is left alone for its hold time after a change (but for the
//     second half of a move), while a
//     worker sits on an unhealthy node, while a deployment runs, and while a
//     count that a user set by hand is honoured.
//   - Locality: a job that must not cross a level of its pool's topology, and
//     does not, is given no worker in another domain of it.
//   - Moves: a move begins where no job waits for room that is coming, and only for
//     a gain above its cost; the job keeps its size, or has another of its sizes
//     between the halves.
//   - Conditional: every write carries the modify index it was planned for.
//
// Policies are held to policy.Validate, which the planner does not rely on: a
// decision may be older than the cluster it is carried out on. Only the elected
// leader writes; that is the caller's part.
//
// # How counts become placements
//
// Nomad chooses the node of a worker, the planner only the count of a group. It
// checks that the workers fit by placing them itself (package placement) on a
// copy of the free capacity, workers of a job together: groups of the job that
// hold most of it first, then the fewest groups; in a pool with a topology, the
// smallest domain that holds them, and domains are left as wholes. Where workers find no room after
// all (Nomad places differently, or the nodes of their group are gone), they are
// relocated after Options.PlacementTimeout to another group of the job that has
// room, or else rolled back, and their group does not grow for
// Options.PlacementRetry. Workers that have a place move as below, and only so.
//
// Where the pool has a topology, a group that is bound to one domain (Group.Path)
// is the unit of placement, and Job.Locality the rule. Such jobs start in the
// smallest domain that holds the wanted size, grow where they are, and leave
// domains as wholes, but where steps are known to be faster otherwise
// (placement.GrowFaster, placement.ReleaseFaster). Jobs without a locality,
// which is all in other pools, are planned as above.
//
// A pool that packs (Cluster.Packed) prefers to leave nodes empty: in which groups
// a job shrinks and grows is decided by that first, and in a pool with a topology
// between groups that are equal by it. How many workers a job has is not.
//
// # Room for growth
//
// Shortages says what jobs want and find no room for, NodeClasses how many more
// nodes would hold it, for whoever adds nodes. Both only read a plan.
//
// # Moves
//
// Package migrate says which workers move, from what is measured (Job.Mobility).
// A move is two actions. In the first the job grows into free room, or, where it
// may not be larger, shrinks; the caller keeps what the move is (Action.Moving, to
// be given back as Job.Moving). In the second it lets the old workers go once the
// new ones train, or gets the new ones once there is room. What a move has not
// taken yet is promised to it: no other job grows into it. A move that gets no
// further is undone, or forgotten, and the job then grows or shrinks to its size
// as any other.
//
// A job that must not cross a level moves inside its domain only: halfway it would
// be in two.
package planner
