// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package remotecall makes a child process, direct or not, shut down its own connections.
//
// Pidfd_getfd(2) does that without touching the process, and callers try it first, but seccomp
// profiles of older container runtimes allow it only with CAP_SYS_PTRACE. These profiles allow
// ptrace(2), which needs no capability for a process of the same user. So this package stops the
// process's first thread, lets it make one system call for each connection, and resumes it where it
// was. A debugger calls a function in the same way, see
// https://sourceware.org/gdb/current/onlinedocs/gdb.html/Calling.html.
//
//	running ── SEIZE, INTERRUPT ──▶ stopped ── registers of shutdown(fd) ──┐
//	   ▲                                                                   ▼
//	   │                                                    entry ── SYSCALL ──▶ exit
//	   └── DETACH ── stopped ◀── INTERRUPT ── registers as they were ◀─────┘
//
// At the last stop the kernel restarts a system call that the first one has interrupted. Signals
// that arrive in between are sent again.
//
// The package supports Linux on amd64 only. Elsewhere Possible returns an error.
package remotecall
