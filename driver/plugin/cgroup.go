// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// cgroupOf is the task's own cgroup (version 2), "" where there is none. On
// version 1 the path that Nomad gives may be shared with other tasks.
func cgroupOf(c *drivers.TaskConfig) string {
	if c.Resources == nil || c.Resources.LinuxResources == nil {
		return ""
	}
	path := c.Resources.LinuxResources.CpusetCgroupPath
	if _, err := os.Stat(filepath.Join(path, "cgroup.kill")); path == "" || err != nil {
		return ""
	}
	return path
}

// killCgroup ends processes that outlived their agent. They must not meet the
// next one of the same allocation.
func killCgroup(c *drivers.TaskConfig, logger hclog.Logger) {
	path := cgroupOf(c)
	if path == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0o600); err != nil {
		logger.Warn("cannot kill what is left in the task's cgroup", "cgroup", path, "error", err)
	}
}

// oomKilled says whether the kernel killed any process of the task for memory.
// The executor notices only when it is the agent; mostly it is a slot.
func oomKilled(c *drivers.TaskConfig) bool {
	path := cgroupOf(c)
	if path == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(path, "memory.events"))
	if err != nil {
		return false
	}
	return oomKills(events) > 0
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
