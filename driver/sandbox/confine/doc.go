// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package confine drops the privileges that an isolated task must not have, and then
// executes the task's program.
//
// Nomad's executor sets the user of a container's processes, but neither the user's groups
// (they run with group 0) nor no_new_privs, and it runs health checks as user 0. So every
// process that the driver starts in a container is this program first:
//
//	executor ──> confine ──> the agent, a health check, `nomad alloc exec`
//	             3 capabilities  none, no_new_privs, the user's own groups
//
// Outside of containers the executor adds group 0 to the groups of a task's user. There
// this program sets the right groups, and lets setuid programs keep their rights.
//
// It can also set an alarm (AlarmArguments) that ends a command after a time, because the
// executor itself does not survive an expired deadline.
//
// The few capabilities that this program needs (Capabilities) exist until it drops them.
// The caller ensures that no code of the job runs with them. The program, its libraries
// and the loader's configuration belong to the host and are out of the job's reach. The
// job's environment, which could name libraries to load, carries a prefix (Environment)
// that is removed only after the capabilities are gone.
package confine
