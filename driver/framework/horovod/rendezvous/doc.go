// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package rendezvous is the server that an unmodified Horovod process talks to. It
// serves the HTTP key-value store through which Gloo builds its meshes, tells a
// process its current rank, and notifies it when the ring is about to change. It
// knows nothing of Nomad, of processes or of how agents reach each other; the agent
// connects its parts.
//
//	training process            agent of the host                  leader
//	                 loopback
//	C++  PUT/GET/DELETE ──> Endpoint ──> Handler ──> Store ── Put ──> Collector
//	     (one port per slot)             (agent)       ^                  │
//	                                                   └────── Fill ──────┘
//	Python PUT worker_addresses ──> Endpoint ──> Handler.WorkerAddress
//	Python notification service <── NotifyTarget.Notify
//
// # Vocabulary
//
// A mesh is one full set of connections between the members of a scope. Each
// initialisation of Horovod builds six, in this order: global, local_<host> and
// cross_<local rank>, and then the same three for process set 0, with the suffix
// _process_set_hash_<hex> (before Horovod 0.23, only the first three).
//
// A blob is the value of a key that is a plain number: the addresses at which one
// member of a mesh waits for each of the others. A process writes its own blob,
// reads those of all others, connects, and deletes its own.
//
// A generation is the life of one ring. A Store and a Collector belong to one
// generation and are discarded with it, so no key outlives its ring.
//
// # Which requests wait, and why
//
// Gloo aborts the process (SIGABRT) if a request fails three times within 1.5
// seconds, or if a key that it polls does not appear in time. It has no time limit
// for a single answer, though. So a request for a missing value waits and is never
// refused: a blob is handed out only when the blobs of all members of its mesh are
// in. Until then a process that died can be restarted in its place without anyone
// noticing. Afterwards its peers may already be connecting to it.
//
// # Who is answered
//
// An endpoint's port is open to every process of the network namespace; with host
// networking, these are the processes of all tenants. Horovod's client cannot carry
// a secret: it builds the path from the scope and the key alone and sends no custom
// header. So a gate decides about each connection by its peer, before a byte is
// read. Connections that it refuses are reset at once and count towards no limit of
// the slot.
//
// Processes of one task are not separated from each other, since they have one user
// and can stop and trace each other anyway. Each is limited by its rank (it writes
// and deletes its own keys, see Store) and by bounds of size and time.
//
// # Who talks to the leader
//
// Meshes whose members all live on one host never leave it. For any other mesh an
// agent sends the leader one message, when the last of its slots has written its
// blob, and gets one message back with the blobs of all members. Polls, repeated
// reads and deletes stay on the host. So the leader's work grows with hosts times
// meshes, not with the square of the ranks.
package rendezvous
