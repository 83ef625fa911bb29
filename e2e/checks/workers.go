// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// abortWorkers ends the processes of a process group that run fuzzed inputs. Their
// parent then takes the input that they hang in for one that crashes, and writes it
// to a file. SIGQUIT does that: Go exits with status 2, while the parent would not
// attribute a signal such as SIGKILL to the input.
func abortWorkers(pgid int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if group, err := syscall.Getpgid(pid); err != nil || group != pgid {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && bytes.Contains(line, []byte("-test.fuzzworker")) {
			_ = syscall.Kill(pid, syscall.SIGQUIT)
		}
	}
}
