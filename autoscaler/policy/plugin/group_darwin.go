// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import "syscall"

// processGroup puts a program and what it starts into a group of their own.
// Host.Close kills the group; the system has no signal for the death of a
// parent, so the program outlives a kolo that is killed.
func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
