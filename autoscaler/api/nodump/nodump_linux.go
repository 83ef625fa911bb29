// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nodump

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Set makes this process non-dumpable until its next execve (prctl(2),
// PR_SET_DUMPABLE). The process then writes no core dumps either. Programs that
// it starts are not affected.
func Set() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_DUMPABLE): %w", err)
	}
	return nil
}
