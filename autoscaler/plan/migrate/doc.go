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
// are known from measurement. Nothing moves unless the gain is well above the cost:
//
//	gain > (1 + Hysteresis) · cost, in slot-seconds
//
// A move first grows the job and then shrinks it, if the job may have the larger size in
// between. Otherwise it first shrinks the job, if the job may have the smaller size.
//
// # Rearrange
//
// The workers of a job move to where its steps are faster: into free slots, or into those
// of other jobs, whose workers then move, too. Rearrange is a local search over bundles of
// moves that together gain more than they cost.
//
// The gain is the time that faster steps save in the job's expected remaining time. Step
// times were measured on this job or on others of its kind, or are estimated from
// measurements at other sizes. As long as no two placements were compared, a job has no
// gain. It then moves only if it is in another job's way.
//
// Options.Budget bounds the search. It counts work instead of time, so that the same jobs
// always give the same moves. Each step may spend half of the remaining budget. Within a
// step, a job spends at most half on finding candidates, and each candidate at most a
// quarter on making room. If that is not enough, the step makes the best change that it
// found, and the next step starts at the next job.
//
// # Clear
//
// A gang waits although enough slots are free, because no single domain that it may start
// in has enough of them. So workers of other jobs move out of one domain, as in Gandiva's
// defragmentation (Xiao et al., OSDI'18, section 3.2).
//
// To move the fewest workers, Clear finds a flow of least cost from the jobs in the domain
// to the free slots outside it by successive shortest paths (Ahuja, Magnanti and Orlin,
// Network Flows, 1993, section 9.7). Voda's placement manager solves the special case of
// one worker per node by the Hungarian algorithm (Hsieh and Lee, IC2E 2023).
//
// # Why moves end
//
// Rearrange only moves jobs to where their steps are faster according to the current
// measurements, and Clear only moves workers if a gang then starts. So as long as jobs and
// measurements stay the same, moves come to an end.
//
// The package is pure. The autoscaler's planner and the simulator use it.
package migrate
