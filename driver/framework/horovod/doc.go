// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package horovod is all that the driver knows of Horovod: it implements the
// interfaces through which host and leader see a training framework.
//
//	framework.Framework ── Agent
//	host.Framework ── Framework ── NewEndpoint ──> endpoint (one a process)
//	                      │                          │ rendezvous.Endpoint: HTTP
//	                      │                          └ handler: placement, addresses
//	                      └── Join ──> rendezvous.Store (one a ring, on this host)
//	                                     │   ↑ values, by host and leader
//	leader.Exchange ── NewExchange ──> rendezvous.Collector (one a ring)
//
// What the interface means for Horovod:
//
//   - Environment: HOROVOD_* as horovodrun sets them (endpoint.Environment).
//   - Its place in the ring: GET rank_and_size, held until there is one.
//   - Notice of a change: a message to the process's notification service, whose
//     address it registers by PUT worker_addresses.
//   - Connected: it has deleted its key of the last of its meshes (Store.Up).
//   - A clean leave: at a commit after a notice, or after a failed collective, it
//     asks for its next place. It aborts (SIGABRT) when others are gone, which is no
//     failure of its own.
//   - No next place: a request to its notification service that raises SystemExit in
//     the thread that waits in Horovod's init, and then a ring of its own, so that
//     init returns (rendezvous.NotifyTarget.Retire).
package horovod
