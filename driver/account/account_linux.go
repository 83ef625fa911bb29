// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"errors"

	"golang.org/x/sys/unix"
)

// accessible asks about an open file. Kernels before 5.8 do not know; then the task
// will find out.
func accessible(fd, flags int) error {
	mode := uint32(unix.R_OK)
	if flags&unix.O_PATH != 0 {
		mode = unix.X_OK
	}
	err := unix.Faccessat2(fd, "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
