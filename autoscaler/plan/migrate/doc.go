// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package migrate decides which workers move closer together, or out of the way.
//
//	Sensitivity (measured)  ─> Slowdown ─┐    (and Hopeful, for new workers)
//	Job (sites, room, time left) ────────┼─> Clear     ─> Moves that let a gang start
//	                                     └─> Rearrange ─> Moves that gain together
//
// A move takes workers of a job from some of its sites to others; the job keeps
// its size. It costs two changes of the job's ring, in which none of its workers
// trains, and the slots that its old and new workers hold at the same time. Both
// are known from measurement, and nothing moves for a gain that is not well above
// them:
//
//	gain > (1 + Hysteresis) · cost, in slot-seconds
//
// A move grows first and then shrinks, where the size in between is one that the
// job may have; else it shrinks first, if the job may have that size.
//
// # Rearrange
//
// The workers of a job move to where its steps are faster, into free slots or into
// those of others that then move, too: a local search over the bundles of moves that
// gain more than they cost together. The gain is the part of the job's expected
// remaining time that steps are faster by, as measured, of this job or others of its
// kind, or estimated from what was measured at other sizes: one of which no two
// placements were ever compared has no gain and stays where it is, unless it is in
// another's way.
//
// What it may look at is bounded (Options.Budget), and counted, not timed: whatever
// jobs there are, a plan takes a bounded time, and the same jobs give the same moves.
// Half of what is left of the budget is for the next change, of which no job may take
// more than a half to find where it would rather be, and no change of those more than
// a quarter to find out what it needs of others. Where that does not suffice, the
// best change that was found is made, and the search goes on at the next job.
//
// # Clear
//
// A gang waits, though enough slots are free, because they are scattered: no
// domain that it may start in has all of them. Workers of other jobs move out of
// one domain, as in Gandiva's defragmentation (Xiao et al., OSDI'18, section 3.2).
// Which ones is a flow of least cost from the jobs in the domain to the free slots
// outside it, found by successive shortest paths (Ahuja, Magnanti and Orlin,
// Network Flows, 1993, section 9.7), so that the fewest workers move; Voda's
// placement manager solves the special case of one worker a node by the Hungarian
// algorithm (Hsieh and Lee, IC2E 2023).
//
// # Why moves end
//
// Rearrange only takes jobs to where steps are faster by what is known now, and
// Clear only moves workers whose gang then starts. Without a change from outside,
// each can happen so many times only.
//
// The package is pure. The planner of the autoscaler and the simulator decide with
// it.
package migrate
