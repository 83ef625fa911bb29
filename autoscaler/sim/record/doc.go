// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package record turns the statuses of a running autoscaler, which it polls, into an event
// log that the simulator can replay under another policy.
//
//	kolo agent ──/v1/status──> Recorder ──events──> file ──> kolo simulate -trace
//
// It only reads, so neither the cluster nor the autoscaler needs a setting for it, and it may
// start and stop at any time. It cannot see when nodes come and go: each node pool becomes
// one node with the pool's capacity at the start.
package record
