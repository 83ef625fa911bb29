// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package torch is all that the driver knows of PyTorch whose process groups change in
// process: it implements the interfaces through which host and leader see a training
// framework.
//
//	framework.Framework ── Agent
//	host.Framework ── Framework ── NewEndpoint ──> endpoint (one a process)
//	                      │                          │ worker.Server: its place, notices
//	                      │                          └ tcpstore.Server: the ring's store
//	                      └── Join ──> store.Replica (one a ring, on this host)
//	                                     │   ↑ operations, by host and leader
//	leader.Exchange ── NewExchange ──> store.Sequencer (one a ring)
//
// What the interface means for PyTorch:
//
//   - Environment: KOLO_WORKER_* for kolo.torch, MASTER_ADDR and MASTER_PORT of the
//     store, and torchrun's variables.
//   - Its place in the ring: ready in the worker protocol, answered when there is one.
//   - Notice of a change: change in the worker protocol.
//   - Connected: formed in the worker protocol.
//   - A clean leave: at the commit on which all ranks agree after a notice, or after
//     a failed collective, it sends ready, and is stopped where it has no next place.
//   - A broken ring: broken in the worker protocol. A group that forms is given up in
//     the process, so no process is ever replaced in place (elastic.Framework), and
//     there are no surrogates.
package torch
