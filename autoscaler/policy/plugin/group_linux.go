// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import "syscall"

// processGroup puts a program and its children into their own process group, and
// has the kernel kill the program when this process ends.
func processGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
