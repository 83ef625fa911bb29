// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package nodump keeps other processes of the same user from reading the memory and
// the environment of this process, both of which contain a Nomad token.
//
// Many tasks of a cluster run as the same user (nobody), and a policy's program is a
// child process with the autoscaler's user. Without protection they can read
// /proc/<pid>/environ, and unsetting a variable does not change that file. If a
// process is not dumpable, only root can read these files in /proc and trace the
// process. Only Linux has this protection; on other systems Set returns an error.
package nodump
