// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadGroups sets the supplementary groups of the calling thread alone.
// syscall.Setgroups sets those of the whole process.
func setThreadGroups(groups []int) error {
	ids := make([]uint32, max(len(groups), 1))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
