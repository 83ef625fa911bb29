// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package store has the key-value store through which the PyTorch processes of one
// ring find each other and form process groups (c10d's Store): what PyTorch itself
// keeps in one of the training processes is replicated by the agents, so it
// outlives each of them. It does no I/O and reads no clock.
//
//	host A                                leader                     host B
//	Client ── Op ──> Replica ── Put ──> Sequencer <── Put ── Replica <── Op ── Client
//	                   ^                    │                   ^
//	                   └────── Fill ────────┴────── Fill ───────┘
//
// # Vocabulary
//
// An operation (Op) changes the store or reads it. An entry is an operation that
// changes it, in its place in the log: the one order that the leader gives all of
// them. A Replica is the store as far as its host has applied the log, and belongs to
// one ring: no key outlives it.
//
// # Order
//
// An operation that changes the store is answered once its own host has applied it.
// Reads and waits are answered from the host's replica. So all processes see the
// changes in the same order, and each sees its own at once; a read may miss a change
// that a process on another host was answered for a moment ago. A ring whose
// members all live on one host never talks to the leader.
//
// # Exactly once
//
// A host numbers its operations and keeps each until it has applied it. Both sides
// use what the session guarantees: messages are not reordered, and what a broken
// session lost is in the Snapshot that begins the next one.
//
//	Put   op    one operation and its number
//	      have  how many entries this host has applied, and how many of them were its own
//	      log   entries that some other host may lack (in a Snapshot)
//	Fill  log   the next entries, and how many all hosts have applied (stable)
//
// The leader sends a host the next entries when it has acknowledged (have) those
// before. Entries that come meanwhile go together, so messages grow with the round
// trips that a group needs to form, not with its ranks. Hosts and leader drop entries
// that are stable.
//
// A leader that takes over orders nothing before each host of the ring has
// registered. Then the longest log among the snapshots is the log: it contains all
// that any host has applied, and shows which of the operations that hosts still hold
// are in it.
package store
