// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package agent is the process that runs inside an allocation of an elastic
// Horovod job. It starts the allocation's slots, answers what Horovod asks
// from them, and, on one allocation of the job, leads the ring.
//
//	slot processes ── HTTP, one loopback port each ──> Host ── session ──> Leader
//	      ↑ start, stop, notify, break                  │ (gRPC, or a pipe    │
//	      └─────────────────────────────────────────────┘  within a process)  │
//	                                                            elastic.Machine, rendezvous.Collector
//
// Host owns what is true of its own slots. It keeps no queue towards the
// leader: when a session begins it says all it knows, and after that each
// change. So a session, and the leader itself, may be lost at any time.
// While there is no leader, requests of slots are held.
//
// Leader feeds sessions into the membership state machine (package elastic)
// and carries out what it says. It holds nothing that can't be rebuilt from
// what the hosts say.
package agent
