// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package remotecall makes a descendant of this process shut its own connections down.
//
// Pidfd_getfd(2) does that without touching the process, and is what callers try first;
// seccomp profiles of older container runtimes allow it only with CAP_SYS_PTRACE. Their
// profiles allow ptrace(2), which needs no capability for a process of the same user. So
// the process's first thread is stopped, makes one system call for each connection, and goes
// on where it was: as a debugger calls a function, see
// https://sourceware.org/gdb/current/onlinedocs/gdb.html/Calling.html.
//
//	running ── SEIZE, INTERRUPT ──▶ stopped ── registers of shutdown(fd) ──┐
//	   ▲                                                                   ▼
//	   │                                                    entry ── SYSCALL ──▶ exit
//	   └── DETACH ── stopped ◀── INTERRUPT ── registers as they were ◀─────┘
//
// The last stop is where the kernel restarts a system call that the first one has
// interrupted. Signals that arrive in between are sent again.
//
// It is for Linux on amd64. Elsewhere Possible reports why it is not.
package remotecall
