// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/hashicorp/nomad/plugins/drivers"
	"golang.org/x/sys/unix"
)

// cgroupID is the ID of the task's own cgroup, by which the agent knows the
// sockets of its task, 0 where there is none. The kernel's ID of a cgroup is
// the inode of its directory.
func cgroupID(c *drivers.TaskConfig) uint64 {
	path := cgroupOf(c)
	var info unix.Stat_t
	if path == "" || unix.Stat(path, &info) != nil {
		return 0
	}
	return info.Ino
}
