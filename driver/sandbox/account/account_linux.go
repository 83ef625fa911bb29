// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"errors"

	"golang.org/x/sys/unix"
)

// accessible checks the rights to an open file. Kernels before 5.8 cannot; there it returns
// nil, and the task fails later if the rights are missing.
func accessible(fd int, rights uint32) error {
	err := unix.Faccessat2(fd, "", rights, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	if errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
