// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nodump keeps the memory and the environment of this process, with a
// Nomad token in both, from other processes of the same user.
//
// Many tasks of a cluster run as one user (no one), and a policy's program is a
// child with the autoscaler's user: without this they read /proc/<pid>/environ, which
// unsetting a variable does not change. The kernel reserves what /proc holds of a
// process that is not dumpable for root, and only root may trace it. Other systems
// than Linux have no equivalent; Set returns an error there.
package nodump
