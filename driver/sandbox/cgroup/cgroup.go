// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package cgroup reads and controls the cgroup (version 2) that contains a task's processes
// and no others.
package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cgroup is the directory of a task's own cgroup, empty if there is none.
type Cgroup string

// At returns the cgroup at a path. On version 1 it returns none, since the path may be
// shared with other tasks.
func At(path string) Cgroup {
	if _, err := os.Stat(filepath.Join(path, "cgroup.kill")); path == "" || err != nil {
		return ""
	}
	return Cgroup(path)
}

// ID returns the kernel's ID of the cgroup, which is the inode of its directory, or 0 if
// there is no cgroup.
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

// OOMKills returns how many of the cgroup's processes the kernel has killed for lack of
// memory, 0 if that is unknown.
func (c Cgroup) OOMKills() int {
	if c == "" {
		return 0
	}
	return OOMKills(filepath.Join(string(c), events))
}

const events, control = "memory.events", "memory.oom_control" // of version 2 and 1

// OOMFile returns the file in which the kernel counts out-of-memory kills in this process's
// own cgroup. It is empty if no such file is visible.
func OOMFile() string { return oomFile("/proc/self/cgroup", "/sys/fs/cgroup") }

func oomFile(own, root string) string {
	text, err := os.ReadFile(own)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		dir, name := root, events
		switch {
		case controllers == "":
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			dir, name = filepath.Join(root, "memory"), control
		default:
			continue
		}
		// A container may see its own cgroup as the root of the hierarchy.
		for _, file := range []string{filepath.Join(dir, path, name), filepath.Join(dir, name)} {
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	return ""
}

// OOMKills returns the count in such a file, 0 if it can't be read.
func OOMKills(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return oomKills(text)
}

// oomKills reads the count from a cgroup's memory.events or memory.oom_control.
func oomKills(text []byte) int {
	for line := range bytes.Lines(text) {
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
