// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package store is the key-value store through which the PyTorch processes of one ring find
// each other and form process groups (c10d's Store). PyTorch itself keeps this store in one
// of the training processes. Here the agents replicate it, so that it outlives each
// process. The package does no I/O and reads no clock.
//
//	host A                                leader                     host B
//	Client ── Op ──> Replica ── Put ──> Sequencer <── Put ── Replica <── Op ── Client
//	                   ^                    │                   ^
//	                   └────── Fill ────────┴────── Fill ───────┘
//
// # Vocabulary
//
// An operation (Op) changes the store or reads it. The leader puts all operations that
// change the store into one order, the log. An entry is such an operation at its position
// in the log. A Replica is the store after the entries that its host has applied. It
// belongs to one ring, so no key outlives the ring.
//
// # Order
//
// An operation that changes the store is answered once its own host has applied it. Reads
// and waits are answered from the host's replica. So all processes see the changes in the
// same order, and each sees its own at once. A read may miss a change that was acknowledged
// to a process on another host a moment ago. A ring whose members all live on one host
// never talks to the leader.
//
// # Exactly once
//
// A host numbers its operations and keeps each until it has applied it. Both sides rely on
// the session's guarantees: messages are not reordered, and anything that a broken session
// lost is in the Snapshot that begins the next one.
//
//	Put   op    one operation and its number
//	      have  how many entries this host has applied, and how many of them were its own
//	      log   entries that some other host may lack (in a Snapshot)
//	Fill  log   the next entries, and how many all hosts have applied (stable)
//
// The leader sends a host the next entries when the host has acknowledged (have) the
// previous ones. Entries that arrive meanwhile are sent together, so messages grow with the
// round trips that a group needs to form, not with its ranks. Hosts and leader drop entries
// that are stable.
//
// A leader that takes over orders nothing until each host of the ring has registered. Then
// the longest log among the snapshots becomes the log. It contains everything that any host
// has applied, and shows which of the hosts' pending operations are already in it.
package store
