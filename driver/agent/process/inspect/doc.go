// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package inspect takes the stacks of an allocation's training processes.
//
//	kolo stacks ── nomad alloc exec ──> agent stacks <directory>     package inspect
//	                                        │ ranks.json             who has which rank; the agent writes it
//	                                        │ /proc                  state, system call, descendants
//	                                        │ py-spy                 if there is one and it may look
//	                                        │ a thread of package kolo   else: it writes into a file
//	                                        └ Signal                 else: faulthandler writes into the file
//
// The thread holds Python's global lock (GIL), and so cannot disturb the process. Faulthandler
// does not, and may crash a process that runs Python code meanwhile. So it is asked only where
// no Python code runs: while all threads sleep, or if native code keeps the GIL.
//
// It runs next to the agent, as a command in the allocation with the rights of the task's
// user, and needs no answer from the agent. All files that it reads may be written by the
// task, so it bounds and distrusts them. It can do nothing that the task itself cannot do.
package inspect
