// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// AgentPath is the path of the driver's binary, which is also the agent, in an
// isolated task. The binary's path on the client would not work: it may lie below a
// directory that the task's user cannot enter.
const AgentPath = "/.kolo/nomad-driver"

const (
	// sharedDir is the directory of an allocation that its tasks share, and logsDir
	// the directory in it where Nomad keeps their output.
	sharedDir = "alloc"
	logsDir   = "logs"
)

// maxLinks bounds the links to entries of the task directory, since root makes them
// on the client's disk.
const maxLinks = 1024

// taskDirs are the directories in a task directory that belong to an isolated task.
var taskDirs = []string{"local", "secrets", "tmp"}

// Rootfs is the file system of an isolated task. Its root is a directory of root's,
// in which the task can replace nothing. The task directory is bound into it.
type Rootfs struct {
	Layout
	// Root is an empty directory (package privatedirs).
	Root string
	// Binary is the driver's binary, Shm the directory to mount as /dev/shm.
	Binary, Shm string
	// Files are files that the driver has made to replace the client's, by their
	// paths in the task.
	Files map[string]string
}

// Build fills the root directory with everything that is not a mount, and returns
// the mounts in their order.
func (r *Rootfs) Build() ([]*drivers.MountConfig, error) {
	links := hostLinks(r.BindPaths)
	for path := range r.Files {
		delete(links, path)
	}
	mounts, err := r.mounts(links)
	if err != nil {
		return nil, err
	}
	if err := r.link(links, mounts); err != nil {
		return nil, fmt.Errorf("root directory of the task: %w", err)
	}
	return mounts, nil
}

// mounts returns, in this order: the task's directories, at their short paths and
// at the client's paths, which Nomad puts into variables; the client's programs;
// the job's volumes; and the mounts that a volume must not cover. These are the
// driver's binary, a /dev/shm of the task's own (the executor's is limited to 64
// MB, too small for NCCL and for data loaders), and the files that replace the
// client's.
func (r *Rootfs) mounts(links map[string]string) ([]*drivers.MountConfig, error) {
	var mounts []*drivers.MountConfig
	bind := func(task, host string, readonly bool) {
		mounts = append(mounts, &drivers.MountConfig{TaskPath: task, HostPath: host, Readonly: readonly})
	}
	for _, name := range taskDirs {
		path := filepath.Join(r.TaskDir, name)
		// The client's root would follow a link that the task has left there.
		fi, err := os.Lstat(path)
		if err != nil || !fi.IsDir() {
			return nil, fmt.Errorf("%s: the task has replaced this directory, and can't be started again in place; stop the allocation", path)
		}
		bind("/"+name, path, false)
	}
	bind(r.TaskDir, r.TaskDir, false)
	secrets := filepath.Join(r.TaskDir, "secrets")
	bind(secrets, secrets, false) // a file system of its own, which the bind above does not include
	shared := filepath.Join(r.AllocDir, sharedDir)
	logs := filepath.Join(shared, logsDir)
	// A descriptor cannot hold it until it is mounted: the kernel binds nothing
	// that was opened in another mount namespace.
	if fi, err := os.Lstat(logs); err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("%s: another task of the allocation has replaced this directory; stop the allocation", logs)
	}
	for _, path := range []string{shared, "/" + sharedDir} {
		bind(path, shared, false)
		// Nomad, as root, opens files in it by name.
		bind(filepath.Join(path, logsDir), logs, true)
	}
	for _, path := range r.BindPaths {
		if _, linked := links[path]; !linked && r.Files[path] == "" {
			bind(path, path, true)
		}
	}
	for _, v := range r.Volumes {
		mounts = append(mounts, v)
		if path := r.otherName(v.TaskPath); path != "" {
			again := *v
			again.TaskPath = path
			mounts = append(mounts, &again)
		}
	}
	bind(AgentPath, r.Binary, true)
	bind("/dev/shm", r.Shm, false)
	for _, path := range slices.Sorted(maps.Keys(r.Files)) {
		bind(path, r.Files[path], true)
	}
	return mounts, r.checkWays(mounts)
}

// checkWays refuses mounts at paths that contain a link, which the task may have
// made in an earlier run or with an artifact. If alloc_dir lies below /tmp, even
// the task directory's own path leads through the task's tmp.
func (r *Rootfs) checkWays(mounts []*drivers.MountConfig) error {
	for _, m := range mounts {
		for _, path := range hostPathsOf(r.TaskDir, filepath.Join("/", m.TaskPath)) {
			if throughLink(r.TaskDir, path) {
				return fmt.Errorf("%s: the task has made a link on the way there, and can't be started again in place; stop the allocation", path)
			}
		}
	}
	return nil
}

// otherName returns the second path of a file in the task's directories. They are
// mounted twice, so a volume in them must be, too.
func (r *Rootfs) otherName(path string) string {
	path = filepath.Join("/", path)
	for _, name := range taskDirs {
		short, long := "/"+name, filepath.Join(r.TaskDir, name)
		switch {
		case within(path, short):
			return long + strings.TrimPrefix(path, short)
		case within(path, long):
			return short + strings.TrimPrefix(path, long)
		}
	}
	return ""
}

// link makes the links in the root directory: to other entries of the task
// directory at the start of the task, such as an artifact, and those of the
// client's /etc.
func (r *Rootfs) link(links map[string]string, mounts []*drivers.MountConfig) error {
	root, err := os.OpenRoot(r.Root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	taken := map[string]bool{"proc": true, "sys": true, "dev": true, "etc": true, "private": true}
	for _, m := range mounts {
		first, _, _ := strings.Cut(strings.TrimPrefix(filepath.Join("/", m.TaskPath), "/"), "/")
		taken[first] = true
	}
	entries, err := os.ReadDir(r.TaskDir)
	if err != nil {
		return err
	}
	if len(entries) > maxLinks {
		return fmt.Errorf("%s: has %d entries, of which %d can be shown at /; put an artifact's files into a directory", r.TaskDir, len(entries), maxLinks)
	}
	for _, e := range entries {
		if taken[e.Name()] {
			continue
		}
		if err := root.Symlink(filepath.Join(r.TaskDir, e.Name()), e.Name()); err != nil {
			return err
		}
	}
	if err := makeMountPoint(root, AgentPath[1:]); err != nil {
		return err
	}
	for path, target := range links {
		if err := root.MkdirAll(filepath.Dir(path)[1:], 0o755); err != nil {
			return err
		}
		if err := root.Symlink(target, path[1:]); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// makeMountPoint makes the file that the driver's binary is mounted on. The
// executor sets the execute bit of the first file that it finds under the binary's
// name. It searches the root directory, and then the mounts, including the task's
// own directories, so this file must be there to be found first.
func makeMountPoint(root *os.Root, path string) error {
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	return f.Close()
}
