// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import "syscall"

// processGroup puts a program and its children into their own process group, which
// Host.Close kills. Darwin has no signal for the death of a parent, so the program
// outlives a kolo process that is killed.
func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
