// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nodump keeps the memory and the environment of this process, with a
// Nomad token in both, from other processes of the same user.
//
// Many tasks of a cluster run as one user (nobody), and a policy's program is a
// child with the agent's user: without this they read /proc/<pid>/environ, which
// unsetting a variable does not change. The kernel gives what /proc holds of a
// process that is not dumpable to root, and lets none but root trace it.
package nodump
