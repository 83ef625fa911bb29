// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster starts a real Nomad cluster on one machine, for tests, for
// the demo and for measurements: one server, some clients, each a process of
// its own with Kolo's plugins.
//
// As root on Linux every client lives in a network namespace, so that a node
// can be cut off from the others as by a pulled cable:
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
// Elsewhere all agents share the loopback interface, and Node.Cut fails with
// ErrShared.
//
// Cleaning up is the work of one small child process, the reaper, which waits
// for its standard input to close. That happens when Cluster.Stop closes it and
// also however the process that started the cluster ends, so that
// no agent, task, mount or namespace outlives a test. On Ctrl-C and SIGTERM that
// process ends once all of its clusters are gone. What a process has left that was
// killed together with its reapers, the next one removes.
package cluster
