// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package builtin holds the policies that Kolo ships, one algorithm per file, and the
// code that they share.
//
//	               one pool per GPU type
//	Snapshot ──> split ──> order or score jobs ──> fill ──> settle ──> Decision
//	 nodes, jobs,            by arrival, service,   gang,     count and
//	 curves, state           length, gain …         growth    reason per job
//
//	pool.go     jobs and free GPUs of one type      fill.go, gain.go, hull.go  which jobs grow
//	reason.go   reasons for counts, for users       keep.go   repeats a plan until an event
//	service.go  attained service, for Tiresias      rotation.go  turns of time slices
//	state.go    state between decisions             catalogue.go  list of all policies
//
// A policy that lacks an input (a declared length, a deadline, a curve) does not fail: it
// falls back to the behaviour documented in its Info.Needs.
package builtin
