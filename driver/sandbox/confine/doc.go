// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package confine takes away from a process what an isolated task must not
// have, and becomes the task's program.
//
// Nomad's executor gives the processes of a container their user but neither
// the user's groups (they run with group 0) nor no_new_privs, and health checks
// run as user 0. So every process that the driver starts in a container is this
// program first:
//
//	executor ──> confine ──> the agent, a health check, `nomad alloc exec`
//	             3 capabilities  none, no_new_privs, the user's own groups
//
// Outside of containers the executor adds group 0 to the groups of a task's
// user; there the same program sets the right ones, and leaves setuid programs
// as they are.
//
// It can also set an alarm (AlarmArguments) that ends a command which takes too long:
// the executor itself does not survive a deadline that passes.
//
// The few capabilities that this takes (Capabilities) exist until then, and no
// code of the job's may run with them. The caller provides for that: the
// program, its libraries and the loader's configuration are the host's and out
// of the job's reach, and the job's environment, which could name libraries to
// load, carries a prefix (Environment) that is removed when nothing is left to
// be gained.
package confine
