// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package policy is the contract between Kolo and a scheduling policy: given what
// is known of a cluster and its jobs, how many workers should each job have?
//
//	Snapshot ──> Policy.Allocate ──> Decision ──> Validate
//	 nodes, jobs,                     count and
//	 curves, state                    reason per job
//
// A policy is a pure function. It reads no clock, does no I/O and knows nothing of Nomad.
// Therefore the simulator and the live autoscaler run the same code, and a decision can
// be replayed from its input. Package builtin holds the policies that Kolo ships; package
// plugin runs external ones in their own processes. Validate checks both.
//
// # Words
//
// A worker is one instance of a job's group; it holds PerWorker GPUs. The size of a job
// is its number of workers. A curve (package speedup) gives the time of one global
// training step by size, and from it the speed-up s(n) = t(1)/t(n). Attained service is
// the GPU-seconds received so far. Remaining work is in seconds on one worker: steps left
// times t(1).
//
// # Rules for every policy
//
// Counts of one GPU type never exceed that type's capacity. A count is 0 or an allowed
// size between the job's bounds. A running job that is not preemptible keeps at least its
// minimum as long as the capacity allows. The same snapshot gives the same decision.
// Wherever a policy orders jobs, those of higher Priority come first.
package policy
