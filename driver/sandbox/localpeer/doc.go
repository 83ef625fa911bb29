// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package localpeer finds out which process is at the other end of a TCP
// connection over loopback, and whether it belongs to the caller's task.
//
// A port of 127.0.0.1 is open to every process of the network namespace. With host
// networking, these are the processes of all tenants of the machine, which often run as one
// user. A server whose clients carry no secret, and which must serve only its own task,
// asks the kernel who is calling:
//
//	accepted connection ── 4-tuple ──> sock_diag ──> the peer's socket: user, cgroup, inode
//	                                       │ where the kernel has none: /proc/net/tcp
//	                                       v
//	        the task has a cgroup of its own: the socket was made in it ──> admitted
//	        otherwise: a process of the task holds it (/proc/<pid>/fd)  ──> admitted
//
// If a fact that this needs cannot be found out, the connection is not admitted.
//
// # Processes of the task
//
// A process belongs to the task if it is in the task's own cgroup (version 2). The kernel
// records the cgroup in each socket when it is made, so one look-up is enough and no
// process can change the answer. Cgroups of version 1 may be shared with other tasks, and
// outside Nomad a task has none. In these cases, a process belongs to the task if it
// descends from the caller, or is in the session that the caller leads: no process can join
// either from outside. A process that leaves both, such as a daemon that forks twice, is
// refused.
//
// A process of the task may hand a socket on to another process, by fork or over a Unix
// socket. It thereby admits the other process.
//
// # Cost
//
// A look-up in the kernel takes some microseconds, whatever the number of sockets.
// Searching descriptors takes longer, so a Gate remembers the last descriptor that it
// found: Linux assigns the lowest free number, and a client with one connection at a time
// gets nearly the same number again. Otherwise the Gate scans the task's processes once for
// all callers that wait. A flood of foreign connections therefore causes one scan after
// another, but not one scan per connection.
package localpeer
