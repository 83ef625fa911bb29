// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

const (
	isolationExec = "exec"
	isolationNone = "none"

	// agentInTask is where an isolated task finds this binary. Its own path
	// would not do: it may lie below a directory closed to the task's user.
	agentInTask = "/.kolo/nomad-driver-horovod"

	// sharedDir is the directory of an allocation that its tasks share.
	sharedDir = "alloc"
)

// isolationMounts lists what a task with isolation = "exec" sees besides its
// task directory, which is its root: the host's programs, the directory that
// the group's tasks share, this binary (the agent), and a /dev/shm of its own
// (the executor's default is limited to 64 MB, too small for NCCL and for data
// loaders).
func isolationMounts(bindPaths []string, allocDir, binary, shm string) []*drivers.MountConfig {
	var mounts []*drivers.MountConfig
	bind := func(task, host string, readonly bool) {
		mounts = append(mounts, &drivers.MountConfig{TaskPath: task, HostPath: host, Readonly: readonly})
	}
	for _, path := range bindPaths {
		bind(path, path, true)
	}
	bind("/alloc", filepath.Join(allocDir, sharedDir), false)
	bind(agentInTask, binary, true)
	bind("/dev/shm", shm, false)
	return mounts
}

// linkHostPaths makes an isolated task's own directories appear at the paths
// they have on the host, which are the ones that Nomad puts into variables. The
// links are relative: seen from the host they stay in the task directory too.
func linkHostPaths(taskDir, allocDir string) error {
	root, err := os.OpenRoot(taskDir)
	if err != nil {
		return fmt.Errorf("task directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	for path, inTask := range map[string]string{
		taskDir:                            ".",
		filepath.Join(allocDir, sharedDir): "alloc",
	} {
		link := strings.TrimPrefix(path, "/")
		up := strings.Repeat("../", strings.Count(link, "/"))
		target := filepath.Join(up, inTask)
		if there, err := root.Readlink(link); err == nil && there == target {
			continue // from an earlier run
		}
		if err := root.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("link %s in the task directory: %w", path, err)
		}
		if err := root.Symlink(target, link); err != nil {
			return fmt.Errorf("link %s in the task directory: %w", path, err)
		}
	}
	return nil
}

// present leaves out the paths that this host does not have.
func present(paths []string) []string {
	var there []string
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			there = append(there, path)
		}
	}
	return there
}
