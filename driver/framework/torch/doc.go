// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package torch adapts PyTorch to the interfaces through which host and leader see a
// training framework. No other part of the agent knows PyTorch.
//
//	framework.Framework ── Agent
//	host.Framework ── Framework ── NewEndpoint ──> endpoint (one per process)
//	                      │                          │ worker.Server: its place, notices
//	                      │                          └ tcpstore.Server: the ring's store
//	                      └── Join ──> store.Replica (one per ring, on this host)
//	                                     │   ↑ operations, by host and leader
//	leader.Exchange ── NewExchange ──> store.Sequencer (one per ring)
//
// How PyTorch does what the interface asks for:
//
//   - Environment: KOLO_WORKER_* for kolo.torch, MASTER_ADDR and MASTER_PORT of the
//     store, and torchrun's variables.
//   - Its place in the ring: ready in the worker protocol, answered when there is a place.
//   - Notice of a change: change in the worker protocol.
//   - Connected: formed in the worker protocol.
//   - A clean leave: after a notice, or after a failed collective, the process sends ready
//     at the commit on which all ranks agree. It is stopped if it has no next place.
//   - A broken ring: broken in the worker protocol. The process itself gives up a group
//     that is still forming, so no process is ever replaced in place (elastic.Framework), and
//     there are no surrogates.
//
// All of this applies to processes with kolo.torch. The processes of a torchrun script have
// their rank and size in the environment, and use only the store. The agent recognizes them
// by that (mode). Their first use of the store without a hello counts as their arrival, and
// waits until they have a place; as soon as it is answered, they count as connected, since
// they report nothing else. They never change their ring: the host asks them for a
// checkpoint, stops them, and starts other processes in their places.
package torch
