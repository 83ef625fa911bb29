// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package record turns repeated statuses of a running autoscaler into an event
// log that the simulator can replay under another policy.
//
//	kolo agent ──/v1/status──> Recorder ──events──> file ──> kolo simulate -trace
//
// It only reads statuses, so the cluster and the autoscaler need not know of it, and it may
// start and stop at any time. It cannot see nodes come and go: each node pool is one node
// of the pool's capacity at the start.
package record
