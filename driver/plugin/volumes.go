// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// coveredDirs hold what runs in a container before privileges are dropped (see
// package confine): the binary, the loader and the libraries. A volume's content
// may be the job's.
var coveredDirs = []string{
	"/.kolo", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys",
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/sbin",
}

// volumesInDev are the places in /dev where a volume makes sense; elsewhere it could
// pretend to be a device.
var volumesInDev = []string{"/dev/hugepages", "/dev/shm"}

// checkVolumes refuses volume mounts of isolated tasks that cover what the host
// brings, or that don't end where their path says.
func checkVolumes(p *problems, s *surroundings) {
	for _, m := range s.mounts {
		path := filepath.Join("/", m.TaskPath)
		switch {
		case slices.ContainsFunc(coveredDirs, func(dir string) bool { return within(path, dir) || within(dir, path) }),
			within(path, "/dev") && !slices.Contains(volumesInDev, path), within("/etc", path), strings.HasPrefix(path, "/etc/ld.so"):
			p.addf("volume_mount at %q: covers the system's own files; mount it at another place, for example %q", m.TaskPath, "/volumes/"+filepath.Base(m.HostPath))
		case within(s.taskDir, path), within(s.allocDir, path), path == "/local", path == "/secrets":
			p.addf("volume_mount at %q: covers the task's directory; mount it at another place, for example %q", m.TaskPath, "/volumes/"+filepath.Base(m.HostPath))
		case within(path, "/"+sharedDir), within(path, filepath.Join(s.allocDir, sharedDir)):
			p.addf("volume_mount at %q: other tasks of the group can move what lies there; mount it outside of /alloc", m.TaskPath)
		case s.inAnotherVolume(path):
			p.addf("volume_mount at %q: lies in another volume, where a link could lead it to any place; mount it beside that one", m.TaskPath)
		case slices.ContainsFunc(hostPathsOf(s.taskDir, path), s.throughLink):
			p.addf("volume_mount at %q: the task has made a link on the way there; mount it outside of the task's directory", m.TaskPath)
		}
	}
}

// inAnotherVolume says whether a path lies in a volume by any of its names. What
// a volume holds is not the driver's to check: it may change while the task starts.
func (s *surroundings) inAnotherVolume(path string) bool {
	names := append(hostPathsOf(s.taskDir, path), path)
	return slices.ContainsFunc(s.mounts, func(m *drivers.MountConfig) bool {
		outer := filepath.Join("/", m.TaskPath)
		return slices.ContainsFunc(append(hostPathsOf(s.taskDir, outer), outer), func(outer string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return name != outer && within(name, outer) })
		})
	})
}

// hostPathsOf are the places in the task's directory on the host that a path of
// the task may lead to, none for a path that leads elsewhere. There are two where
// the directory itself lies below /tmp.
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

// throughLink says whether a path below dir has a link on it.
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
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		if fi, err := root.Lstat(rel[:i]); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	fi, err := root.Lstat(rel)
	return err == nil && fi.Mode()&fs.ModeSymlink != 0
}
