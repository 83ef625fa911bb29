// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hide keeps the environment and the memory of this process, a Nomad token in
// both, from processes of the same user: the kernel gives what /proc holds of a
// process that is not dumpable to root, and lets none but root trace it.
// A policy's program is a child with the agent's user and could read
// /proc/<ppid>/environ otherwise, which unsetting a variable does not change.
// It lasts until the next execve; programs that this one starts are not affected,
// and core dumps are not written.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_DUMPABLE): %w", err)
	}
	return nil
}
