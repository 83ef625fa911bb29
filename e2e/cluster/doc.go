// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster starts a real Nomad cluster on one machine, for tests, for the
// demo and for measurements: one server and some clients, each a process of its
// own, with Kolo's plugins.
//
// As root on Linux every client runs in a network namespace, so that a node can be
// cut off from the others like a machine whose cable is pulled:
//
//	host namespace           10.213.N.1 ── server, and the tests
//	                              │
//	                       bridge kolo-N
//	                  ┌───────────┼───────────┐
//	               veth          veth        veth    Node.Cut sets one down
//	                  │           │           │
//	namespace      kolo-N-c1   kolo-N-c2   kolo-N-c3
//	               10.213.N.11 …     .12   …     .13 ── client agents
//
// Elsewhere all agents share the loopback interface, and Node.Cut returns
// ErrShared.
//
// A small child process, the reaper, cleans up. It waits for its standard input to
// close. That happens when Cluster.Stop closes it, and also whenever the process
// that started the cluster ends, so no agent, task, mount or namespace outlives a
// test. On Ctrl-C and SIGTERM that process ends only after all of its clusters are
// gone. If it is killed together with its reapers, the next such process removes
// the remains.
package cluster
