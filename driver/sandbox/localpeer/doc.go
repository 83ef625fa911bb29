// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package localpeer finds out which process is at the other end of a TCP
// connection over loopback, and whether it belongs to the caller's task.
//
// A port of 127.0.0.1 is open to every process of the network namespace: with
// host networking to all tenants of the machine, who often run as one user. A
// server that has to answer its own task alone, to clients that carry no
// secret, asks the kernel who is calling:
//
//	accepted connection ── 4-tuple ──> sock_diag ──> the peer's socket: user, cgroup, inode
//	                                       │ where the kernel has none: /proc/net/tcp
//	                                       v
//	        the task has a cgroup of its own: the socket was made in it ──> admitted
//	        otherwise: a process of the task holds it (/proc/<pid>/fd)  ──> admitted
//
// Nothing is admitted because something could not be found out.
//
// # Processes of the task
//
// A process belongs to the task when it is in the task's own cgroup (version 2;
// the kernel notes the cgroup in each socket as it is made, so one question is
// enough and no process can change the answer). Cgroups of version 1 may be
// shared with other tasks, and outside Nomad there is none. There, a process
// belongs to the task when it descends from the caller, or is in the session
// that the caller leads: neither can be joined from outside. What leaves both,
// a daemon that detaches itself twice, is refused.
//
// A socket may be handed on to another process, by fork or over a Unix socket.
// The process of the task that does so admits the other.
//
// # Cost
//
// The question to the kernel takes some microseconds, whatever the number of
// sockets. Looking through descriptors takes longer, so a Gate remembers the
// one it found last: Linux gives out the lowest free number, and a client with
// one connection at a time gets nearly the same again. Everything else is one
// scan of the task's processes, which all callers that wait share; a flood of
// foreign connections costs one scan after another, not one each.
package localpeer
