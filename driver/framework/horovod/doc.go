// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package horovod adapts Horovod to the interfaces through which host and leader see a
// training framework. No other part of the agent knows Horovod.
//
//	framework.Framework ── Agent
//	host.Framework ── Framework ── NewEndpoint ──> endpoint (one per process)
//	                      │                          │ rendezvous.Endpoint: HTTP
//	                      │                          └ handler: placement, addresses
//	                      └── Join ──> rendezvous.Store (one per ring, on this host)
//	                                     │   ↑ values, by host and leader
//	leader.Exchange ── NewExchange ──> rendezvous.Collector (one per ring)
//
// How Horovod does what the interface asks for:
//
//   - Environment: HOROVOD_* as horovodrun sets them (endpoint.Environment).
//   - Its place in the ring: GET rank_and_size, which waits until there is a place.
//   - Notice of a change: a message to the process's notification service, whose address
//     the process registers by PUT worker_addresses.
//   - Connected: the process has deleted its key of the last of its meshes (Store.Up).
//   - A clean leave: at a commit after a notice, or after a failed collective, the process
//     asks for its next place. If peers are gone, it aborts (SIGABRT), which does not count
//     as its own failure.
//   - No next place: a request to the process's notification service raises SystemExit in
//     the thread that waits in Horovod's init. The process then gets a ring of its own, so
//     that init returns (rendezvous.NotifyTarget.Retire).
package horovod
