// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// whileTraced is the interval between two checks of a child that is stopped.
const whileTraced = time.Millisecond

// waitNoReap waits until a child has ended, without reaping it. While this process traces
// the child (see package remotecall), the kernel reports stops of the child, too.
func waitNoReap(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || ended(info.Code):
			return err
		default:
			time.Sleep(whileTraced)
		}
	}
}

// ended reports whether a child's state (CLD_… of waitid(2)) is exited, killed or dumped.
func ended(code int32) bool { return code >= 1 && code <= 3 }
