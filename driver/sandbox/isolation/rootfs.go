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

// AgentPath is where an isolated task finds the driver's binary, which is also the
// agent. The binary's own path would not do: it may lie below a directory closed to
// the task's user.
const AgentPath = "/.kolo/nomad-driver"

const (
	// sharedDir is the directory of an allocation that its tasks share, logsDir
	// where Nomad keeps their output in it.
	sharedDir = "alloc"
	logsDir   = "logs"
)

// maxLinks bounds the links to what lies in the task directory: they are root's,
// and made on the client's disk.
const maxLinks = 1024

// taskDirs are the directories of a task directory that are an isolated task's
// own.
var taskDirs = []string{"local", "secrets", "tmp"}

// Rootfs is the file system of an isolated task. Its root is a directory of
// root's, in which the task can replace nothing; the task directory is bound into
// it.
type Rootfs struct {
	Layout
	// Root is an empty directory (package privatedirs).
	Root string
	// Binary is the driver's, Shm the directory to show as /dev/shm.
	Binary, Shm string
	// Files are made by the driver in place of the client's, by the task's path.
	Files map[string]string
}

// Build fills the root directory with what is not mounted, and returns the
// mounts in their order.
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

// mounts lists, in this order, the task's directories at their short paths and
// at those of the client, which Nomad puts into variables; the client's programs;
// the job's volumes; and what a volume must not cover: this binary, a /dev/shm
// of its own (the executor's is limited to 64 MB, too small for NCCL and for
// data loaders), and files in place of the client's.
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
	bind(secrets, secrets, false) // a file system of its own, which the bind before leaves out
	shared := filepath.Join(r.AllocDir, sharedDir)
	logs := filepath.Join(shared, logsDir)
	// It can't be held by a descriptor until it is mounted: the kernel binds
	// nothing that was opened in another mount namespace.
	if fi, err := os.Lstat(logs); err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("%s: another task of the allocation has replaced this directory; stop the allocation", logs)
	}
	for _, path := range []string{shared, "/" + sharedDir} {
		bind(path, shared, false)
		// Nomad's root opens files in it by name.
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

// checkWays refuses mounts at paths that the task has put a link on, in an
// earlier run or by an artifact. Where alloc_dir lies below /tmp, even the task
// directory's own path leads through the task's tmp.
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

// otherName is the second path of what lies in the task's directories: they are
// mounted twice, so that a volume in them has to be too.
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

// link makes the links in the root directory: to what else lies in the task
// directory when the task starts (an artifact's destination may), and those of
// the client's /etc.
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

// makeMountPoint makes the file that the driver's binary is mounted on. The executor
// makes the first file executable that it finds under the binary's name: it looks
// in the root directory, and then in what every mount shows, the task's own
// directories among it. It must find this one.
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
