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
// Host owns what is true of its own slots. It keeps no queue towards the leader:
// when a session begins it reports all it knows, and after that each change. So a
// session, and the leader itself, may be lost at any time. While there is no
// leader, processes that ask for their place are held.
//
// Processes that can't change their ring are replaced for each: the next one of a slot
// starts in its second place (standby.go) beside the present one, if there is memory for
// both (memory.go). To them a notice is the request to save a checkpoint and to end
// (checkpoint.go).
//
// A process that hangs in a broken ring is known by the CPU time that it does not use
// (idle.go).
//
// What differs between training frameworks is behind Framework; this package knows
// none of them.
package host
