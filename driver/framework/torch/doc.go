// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package torch is all that the driver knows of PyTorch: it implements the interfaces
// through which host and leader see a training framework.
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
//
// That is for processes with kolo.torch. Those of a script for torchrun have their rank
// and size in the environment, and use nothing but the store. They are known by that
// (mode): the first use without a hello is their arrival, and is held until they have
// their place. Being let go is all that is known of their being connected. They never
// leave a ring: the host asks them for a checkpoint and their end, and others take their
// places.
package torch
