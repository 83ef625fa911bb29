// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// coveredDirs hold the code that runs in a container before privileges are dropped (see
// package confine): the binary, the loader and the libraries. A volume must not cover them,
// as its content may be the job's.
var coveredDirs = []string{
	"/.kolo", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys",
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/sbin",
}

// volumesInDev are the paths in /dev where a volume makes sense. Elsewhere it could pretend
// to be a device.
var volumesInDev = []string{"/dev/hugepages", "/dev/shm"}

// CheckBindPaths refuses bind paths that would show a task the directories of other tasks.
func (l Layout) CheckBindPaths() (problems problem.List) {
	for _, path := range l.BindPaths {
		if within(l.TaskDir, path) {
			problems.Add("config.bind_paths", nil, fmt.Sprintf("%q holds Nomad's data directory, so that tasks would see one another", path), "bind what they need of it instead")
		}
	}
	return problems
}

// CheckVolumes refuses volume mounts that cover the system's files or the task's directory,
// and volume mounts whose path a task could redirect with a link.
func (l Layout) CheckVolumes() (problems problem.List) {
	for _, m := range l.Volumes {
		path := filepath.Join("/", m.TaskPath)
		elsewhere := fmt.Sprintf("mount it at another place, for example %q", "/volumes/"+filepath.Base(m.HostPath))
		var why, remedy string
		switch {
		case slices.ContainsFunc(coveredDirs, func(dir string) bool { return within(path, dir) || within(dir, path) }),
			within(path, "/dev") && !slices.Contains(volumesInDev, path), within("/etc", path), strings.HasPrefix(path, "/etc/ld.so"):
			why, remedy = "covers the system's own files", elsewhere
		case within(l.TaskDir, path), within(l.AllocDir, path), path == "/local", path == "/secrets":
			why, remedy = "covers the task's directory", elsewhere
		case within(path, "/"+sharedDir), within(path, filepath.Join(l.AllocDir, sharedDir)):
			why, remedy = "other tasks of the group can move what lies there", "mount it outside of /alloc"
		case l.inAnotherVolume(path):
			why, remedy = "lies in another volume, where a link could lead it to any place", "mount it next to that one"
		case slices.ContainsFunc(hostPathsOf(l.TaskDir, path), func(path string) bool { return throughLink(l.TaskDir, path) }):
			why, remedy = "the task has made a link on the way there", "mount it outside of the task's directory"
		default:
			continue
		}
		problems.Add("volume_mount.destination", m.TaskPath, why, remedy)
	}
	return problems
}

// inAnotherVolume reports whether a path lies in a volume by any of its names. The driver
// does not check paths inside volumes, which may change while the task starts.
func (l Layout) inAnotherVolume(path string) bool {
	names := append(hostPathsOf(l.TaskDir, path), path)
	return slices.ContainsFunc(l.Volumes, func(m *drivers.MountConfig) bool {
		outer := filepath.Join("/", m.TaskPath)
		return slices.ContainsFunc(append(hostPathsOf(l.TaskDir, outer), outer), func(outer string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return name != outer && within(name, outer) })
		})
	})
}

// hostPathsOf returns the paths on the client, in the task's directory, that a path of the
// task may lead to. It returns none for a path that leads elsewhere, and two if the
// directory itself lies below /tmp.
func hostPathsOf(taskDir, path string) []string {
	var paths []string
	for _, name := range taskDirs {
		if within(path, "/"+name) {
			paths = append(paths, filepath.Join(taskDir, path))
		}
	}
	if within(path, taskDir) {
		paths = append(paths, path)
	}
	return paths
}

// throughLink reports whether a path below dir contains a link.
func throughLink(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	if path == "" || err != nil {
		return false
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	for ; rel != "."; rel = filepath.Dir(rel) {
		if fi, err := root.Lstat(rel); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}
