// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// A task's directory, and the one it shares with the other tasks of its
// allocation, belong to the users that tasks run as: anything in them can be
// replaced by a link before root opens it the next time. So what root writes for
// a task lies in directories of root's own, beside those of the allocations.
//
//	<alloc_dir>/<allocation>/<task>/              Nomad's, and the task's
//	<alloc_dir>/.kolo/state/<allocation>/<task>/  what the driver writes
//	<alloc_dir>/.kolo/root/<allocation>/<task>/   root of an isolated task
//
// They can't lie in the allocation's directory: a job may name a task like any
// entry there.
type privateDirs struct {
	allocs string // alloc_dir
	state  string
	root   string
}

const privateName = ".kolo"

// Files in the state directory.
const (
	executorLogName = "executor.out"
	offsetName      = "events.offset"
	devicesName     = "devices.json"
	hostsName       = "hosts"
	resolvName      = "resolv.conf"
)

func privateDirsOf(c *drivers.TaskConfig) privateDirs {
	dir := c.TaskDir().Dir
	allocs, alloc, task := filepath.Dir(c.AllocDir), filepath.Base(c.AllocDir), filepath.Base(dir)
	return privateDirs{
		allocs: allocs,
		state:  filepath.Join(allocs, privateName, "state", alloc, task),
		root:   filepath.Join(allocs, privateName, "root", alloc, task),
	}
}

// create makes the directories for a run of the task, the root an empty one. How
// much of the events was passed on concerns the earlier run's: the new one's may be
// as long before anyone looks.
func (d privateDirs) create() error {
	if err := d.createState(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.state, offsetName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the task's earlier run: %w", err)
	}
	if err := removeTree(d.root); err != nil {
		return fmt.Errorf("remove the task's earlier root: %w", err)
	}
	if err := os.MkdirAll(d.root, 0o755); err != nil {
		return fmt.Errorf("root directory of the task: %w", err)
	}
	return nil
}

// createState makes the state directory, which tasks of earlier drivers lack.
func (d privateDirs) createState() error {
	err := makeOwn(filepath.Join(d.allocs, privateName))
	if err == nil {
		err = os.MkdirAll(d.state, 0o755)
	}
	if err != nil {
		return fmt.Errorf("directory for what the driver writes: %w", err)
	}
	return nil
}

// makeOwn makes a directory that no other user may look into. One that is there
// must be such a directory.
func makeOwn(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || !fi.IsDir() || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: must be a directory that only the Nomad client's user may use; remove it, and the driver makes it again", dir)
	}
	return nil
}

// sweep removes what was kept for allocations that the client has removed.
func (d privateDirs) sweep() error {
	var errs []error
	for _, dir := range []string{filepath.Join(d.allocs, privateName, "state"), filepath.Join(d.allocs, privateName, "root"), d.ownShmDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if _, err := os.Lstat(filepath.Join(d.allocs, e.Name())); errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, removeTree(filepath.Join(dir, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a directory in which nothing is mounted.
func removeTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && within(mountEscapes.Replace(f[4]), dir) {
			return fmt.Errorf("%s: something is mounted at %s", dir, f[4])
		}
	}
	return os.RemoveAll(dir)
}

// mountEscapes are what the kernel writes for characters that separate fields.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")

// removeRun removes what only a running task needs: its root, and what else was
// made for it on the host.
func (d privateDirs) removeRun(cleanup []string) error {
	errs := []error{removeTree(d.root)}
	for _, path := range cleanup {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// write makes a file in the state directory.
func (d privateDirs) write(name string, data []byte) (string, error) {
	path := filepath.Join(d.state, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return "", err
	}
	return path, nil
}
