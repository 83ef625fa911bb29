// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// accessible asks about an open file what package unix asks only about paths.
// Kernels before 5.8 do not know; then the task will find out.
func accessible(fd, flags int) error {
	mode := uintptr(unix.R_OK)
	if flags&unix.O_PATH != 0 {
		mode = unix.X_OK
	}
	empty := [1]byte{}
	_, _, errno := unix.RawSyscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])), mode,
		unix.AT_EMPTY_PATH|unix.AT_EACCESS, 0, 0)
	if errno != 0 && errno != unix.ENOSYS {
		return errno
	}
	return nil
}

// setThreadGroups sets the supplementary groups of the calling thread alone.
// syscall.Setgroups sets those of the whole process.
func setThreadGroups(groups []int) error {
	ids := make([]uint32, max(len(groups), 1))
	for i, g := range groups {
		ids[i] = uint32(g) //nolint:gosec // the kernel has ids of 32 bits
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
