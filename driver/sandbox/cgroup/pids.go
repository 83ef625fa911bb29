// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrShared means that a process is not in a cgroup of its own.
var ErrShared = errors.New("the process shares a cgroup with the Nomad client")

// LimitPids bounds how many processes and threads the cgroup of a process may have,
// including the process and everything that it starts. It works with either version of
// cgroups.
func LimitPids(pid, limit int) error {
	own, err := pidsCgroup(os.Getpid())
	if err != nil {
		return err
	}
	dir, err := pidsCgroup(pid)
	if err != nil {
		return err
	}
	if dir == own {
		return ErrShared
	}
	return os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(limit)), 0o600)
}

// root is the mount point of the cgroup file system.
const root = "/sys/fs/cgroup"

// pidsCgroup returns the directory of the cgroup whose pids.max applies to a process.
func pidsCgroup(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	dir := pidsDir(string(text))
	if _, err := os.Stat(filepath.Join(root, dir)); dir == "" || err != nil {
		return "", fmt.Errorf("process %d: no cgroup with the pids controller is mounted below %s: %w", pid, root, fs.ErrNotExist)
	}
	return filepath.Join(root, dir), nil
}

// pidsDir returns that directory, relative to root, from the text of /proc/<pid>/cgroup:
// the line with the pids controller in version 1, otherwise the line of version 2.
func pidsDir(text string) (dir string) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(fields) != 3:
		case slices.Contains(strings.Split(fields[1], ","), "pids"):
			return filepath.Join("pids", fields[2])
		case fields[0] == "0" && fields[1] == "":
			dir = fields[2]
		}
	}
	return dir
}
