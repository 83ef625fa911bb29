// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/nomad/plugins/drivers"
)

const (
	isolationExec = "exec"
	isolationNone = "none"

	// agentInTask is where an isolated task finds this binary. Its own path
	// would not do: it may lie below a directory closed to the task's user.
	agentInTask = "/.kolo/nomad-driver-horovod"
)

// isolationMounts lists what a task with isolation = "exec" sees besides its
// task directory, which is its root: the host's programs, its own directories
// at their host paths, this binary (the agent), and a /dev/shm of its own (the
// executor's default is limited to 64 MB, too small for NCCL and for data
// loaders). An empty binary or shm is left out.
func isolationMounts(bindPaths []string, taskDir, allocDir, binary, shm string) []*drivers.MountConfig {
	var mounts []*drivers.MountConfig
	bind := func(task, host string, readonly bool) {
		mounts = append(mounts, &drivers.MountConfig{TaskPath: task, HostPath: host, Readonly: readonly})
	}
	for _, path := range bindPaths {
		bind(path, path, true)
	}
	shared := filepath.Join(allocDir, "alloc")
	bind("/alloc", shared, false)
	bind(shared, shared, false)
	for _, name := range []string{"local", "secrets", "tmp"} {
		dir := filepath.Join(taskDir, name)
		bind(dir, dir, false)
	}
	if binary != "" {
		bind(agentInTask, binary, true)
	}
	if shm != "" {
		bind("/dev/shm", shm, false)
	}
	return mounts
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
