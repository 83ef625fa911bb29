// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitNoReap waits until a child has ended and leaves it to be reaped.
func waitNoReap(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
