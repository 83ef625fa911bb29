// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup asks the kernel about the cgroup (version 2) that has a task's
// processes and no others.
package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cgroup is the directory of a task's own cgroup, empty where there is none.
type Cgroup string

// At is the cgroup at a path. On version 1 the path may be shared with other
// tasks: it counts as none.
func At(path string) Cgroup {
	if _, err := os.Stat(filepath.Join(path, "cgroup.kill")); path == "" || err != nil {
		return ""
	}
	return Cgroup(path)
}

// ID is the kernel's ID of the cgroup, the inode of its directory; 0 where there
// is none.
func (c Cgroup) ID() uint64 {
	var info unix.Stat_t
	if c == "" || unix.Stat(string(c), &info) != nil {
		return 0
	}
	return info.Ino
}

// Kill ends every process in the cgroup.
func (c Cgroup) Kill() error {
	if c == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0o600)
}

// OOMKilled reports whether the kernel killed any process of it for memory.
func (c Cgroup) OOMKilled() bool {
	if c == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(string(c), "memory.events"))
	return err == nil && oomKills(events) > 0
}

// oomKills reads the count from a cgroup's memory.events.
func oomKills(events []byte) int {
	for line := range bytes.Lines(events) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "oom_kill "); ok {
			kills, err := strconv.Atoi(n)
			if err != nil {
				return 0
			}
			return kills
		}
	}
	return 0
}
