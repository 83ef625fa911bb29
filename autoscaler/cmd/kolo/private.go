// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// keepPrivate keeps other processes of the same user from reading this one's
// environment and memory, where the Nomad token is: many tasks may run as
// nobody. The kernel then leaves no core dump either.
func keepPrivate() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping the environment from processes of the same user: %w", err)
	}
	return nil
}
