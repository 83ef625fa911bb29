// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import "syscall"

// processGroup puts a program and what it starts into a group of their own, and
// has the kernel kill it when this process ends.
func processGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
