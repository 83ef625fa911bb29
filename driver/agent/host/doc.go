// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package host runs the slots of one allocation: it starts their training
// processes, admits them to rings, notifies them, and cuts the connections of a
// broken ring.
//
//	process ── asks ──> Endpoint ── Events ──> Host ── Session ──> leader
//	   ↑                (framework)             │
//	   └── start, stop, notify, shut down ──────┘
//
// Host owns the state of its own slots. It keeps no queue of messages to the leader. When a
// session begins it reports the whole state, and after that each change. So a session, and
// the leader itself, may be lost at any time. While there is no leader, processes that ask
// for their place wait.
//
// Processes that can't change their ring are replaced for each ring. If there is memory for
// both (memory.go), the next process of a slot starts in the slot's second place
// (standby.go) while the current one trains. For such a process, a notice is the request to
// save a checkpoint and to end (checkpoint.go).
//
// A process that hangs in a broken ring is recognized because it uses no CPU time
// (idle.go).
//
// Differences between training frameworks are behind the interface Framework; this
// package depends on none of them.
package host
