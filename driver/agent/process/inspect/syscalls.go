// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import "golang.org/x/sys/unix"

// syscallNames names the system calls in which processes wait.
var syscallNames = map[int]string{
	unix.SYS_ACCEPT:          "accept",
	unix.SYS_ACCEPT4:         "accept4",
	unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep",
	unix.SYS_CLOSE:           "close",
	unix.SYS_CONNECT:         "connect",
	unix.SYS_EPOLL_PWAIT:     "epoll_pwait",
	unix.SYS_FCNTL:           "fcntl",
	unix.SYS_FDATASYNC:       "fdatasync",
	unix.SYS_FLOCK:           "flock",
	unix.SYS_FSYNC:           "fsync",
	unix.SYS_FUTEX:           "futex",
	unix.SYS_GETDENTS64:      "getdents64",
	unix.SYS_IOCTL:           "ioctl",
	unix.SYS_IO_GETEVENTS:    "io_getevents",
	unix.SYS_MUNMAP:          "munmap",
	unix.SYS_NANOSLEEP:       "nanosleep",
	unix.SYS_OPENAT:          "openat",
	unix.SYS_PPOLL:           "ppoll",
	unix.SYS_PREAD64:         "pread64",
	unix.SYS_PSELECT6:        "pselect6",
	unix.SYS_PWRITE64:        "pwrite64",
	unix.SYS_READ:            "read",
	unix.SYS_READV:           "readv",
	unix.SYS_RECVFROM:        "recvfrom",
	unix.SYS_RECVMSG:         "recvmsg",
	unix.SYS_SCHED_YIELD:     "sched_yield",
	unix.SYS_SENDMSG:         "sendmsg",
	unix.SYS_SENDTO:          "sendto",
	unix.SYS_STATX:           "statx",
	unix.SYS_WAIT4:           "wait4",
	unix.SYS_WAITID:          "waitid",
	unix.SYS_WRITE:           "write",
	unix.SYS_WRITEV:          "writev",
}
