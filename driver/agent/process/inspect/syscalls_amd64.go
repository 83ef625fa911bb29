// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import "golang.org/x/sys/unix"

// Newer architectures do not have these system calls.
func init() {
	for number, name := range map[int]string{
		unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_LSTAT: "lstat", unix.SYS_OPEN: "open", unix.SYS_PAUSE: "pause",
		unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_STAT: "stat", unix.SYS_NEWFSTATAT: "newfstatat",
	} {
		syscallNames[number] = name
	}
}
