// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package privatedirs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Dirs are the directories that root owns for one task.
type Dirs struct {
	// State holds the files that the driver writes. Root is the root of an isolated
	// task.
	State, Root string

	allocs string // alloc_dir
}

const privateName = ".kolo"

// EventOffset is a file in the state directory. It records up to which position the
// task's event file has been read and passed on.
const EventOffset = "events.offset"

// New returns the names of a task's directories. allocDir is the directory of its
// allocation. New creates none of them.
func New(allocDir, task string) Dirs {
	allocs, alloc := filepath.Dir(allocDir), filepath.Base(allocDir)
	return Dirs{
		allocs: allocs,
		State:  filepath.Join(allocs, privateName, "state", alloc, task),
		Root:   filepath.Join(allocs, privateName, "root", alloc, task),
	}
}

// Create makes the directories for a run of the task, with an empty root. It resets
// the event offset of the earlier run: events of the new run before that offset
// would not be read.
func (d Dirs) Create() error {
	if err := d.CreateState(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.State, EventOffset)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the files of the task's earlier run: %w", err)
	}
	if err := removeTree(d.Root); err != nil {
		return fmt.Errorf("remove the task's earlier root: %w", err)
	}
	if err := os.MkdirAll(d.Root, 0o755); err != nil {
		return fmt.Errorf("root directory of the task: %w", err)
	}
	return nil
}

// CreateState makes the state directory, which tasks of earlier driver versions
// lack.
func (d Dirs) CreateState() error {
	err := makeOwn(filepath.Join(d.allocs, privateName))
	if err == nil {
		err = os.MkdirAll(d.State, 0o755)
	}
	if err != nil {
		return fmt.Errorf("directory for what the driver writes: %w", err)
	}
	return nil
}

// makeOwn makes a directory that no other user may read. An existing one must be
// such a directory.
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

// Sweep removes the directories of allocations that the client has removed.
func (d Dirs) Sweep() error {
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

// removeTree removes a directory that contains no mount.
func removeTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(mountEscapes.Replace(f[4])+"/", dir+"/") {
			return fmt.Errorf("%s: something is mounted at %s", dir, f[4])
		}
	}
	return os.RemoveAll(dir)
}

// mountEscapes undoes the kernel's escapes for field separators.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")

// RemoveRun removes everything that only a running task needs: its root, and the
// paths in cleanup.
func (d Dirs) RemoveRun(cleanup []string) error {
	errs := []error{removeTree(d.Root)}
	for _, path := range cleanup {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// Write writes a file in the state directory.
func (d Dirs) Write(name string, data []byte) (string, error) {
	path := filepath.Join(d.State, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return "", err
	}
	return path, nil
}
