// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package rendezvous is what an unmodified Horovod process talks to: the HTTP
// key-value server through which Gloo builds its meshes, the question "which
// rank am I now", and the notice to a process that the ring is to
// change. It knows nothing of Nomad, of processes or of how agents reach each
// other; the agent connects its parts.
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
// initialisation of Horovod builds six, in this order: global, local_<host>
// and cross_<local rank>, and then the same three for process set 0, which
// carry the suffix _process_set_hash_<hex> (three before Horovod 0.23).
//
// A blob is the value of a key that is a plain number: the addresses at which
// one member of a mesh waits for each of the others. A process writes its own
// blob, reads everyone else's, connects, and deletes its own.
//
// A generation is the life of one ring. A Store and a Collector belong to one
// generation and are thrown away with it, so no key outlives its ring.
//
// # What is held, and why
//
// Gloo aborts the process (SIGABRT) when a request fails three times within
// 1.5 seconds, and when a key it polls for does not appear in time. It has no
// time limit for a single answer, though. So what is not there yet is
// held, never refused: a blob is given out only once the blobs of all members
// of its mesh are in. Up to then a process that died can be started again in
// its place without anyone noticing; afterwards its peers may already be
// connecting to it.
//
// # Who is answered
//
// An endpoint's port is open to every process of the machine's network, with
// host networking to all tenants. Horovod's client has no place for a secret:
// it builds the path from the scope and the key alone and sends no header of
// the user's. So a gate decides about each connection by its peer, before a byte
// is read. Connections that it refuses are reset at once and count towards no
// limit of the slot.
//
// Processes of one task are not kept apart: they have one user, and may stop
// and trace each other anyhow. What one of them may do is bounded by its rank
// (it writes and deletes its own keys, see Store) and by limits of size and time.
//
// # Who talks to the leader
//
// Meshes whose members all live on one host never leave it. For the others an
// agent sends the leader one message per mesh, when the last of its slots has
// written its blob, and gets one back with the blobs of all members. Polls,
// repeated reads and deletes stay on the host. The leader's work therefore
// grows with hosts times meshes, not with the square of the ranks.
package rendezvous
