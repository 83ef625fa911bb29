// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package jobmap lists the jobs that use each GPU of a client, in files that dcgm-exporter
// reads (--hpc-job-mapping-dir). Each file is named after the index of a GPU, and has one job
// per line.
//
// Several drivers of a client may share a directory. For that, a hidden file for each GPU
// holds the tasks that use the GPU, from which the list of its jobs is made.
package jobmap

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the files, far above the GPUs of a machine and the instances of a GPU.
const (
	mostGPUs  = 1024
	mostTasks = 64      // of one GPU
	longest   = 200     // characters of a job
	mostBytes = 1 << 20 // of the tasks of a GPU
)

// lockTimeout bounds how long a task waits for the other drivers of the client.
const lockTimeout = 2 * time.Second

// Use describes the GPUs that a task uses.
type Use struct {
	Task           string // its ID
	Namespace, Job string
	GPUs           []int // NVML's indexes
	Shared         bool  // other tasks may use other MIG instances of the GPUs
}

// Map manages the files in a directory. It is safe for concurrent use. A nil Map has no
// directory, and its methods do nothing.
type Map struct {
	dir string
	mu  sync.Mutex
}

// entry is a task that uses a GPU.
type entry struct{ Task, Line string }

// Open returns a Map in a directory, which it creates if needed. It refuses a directory that
// users other than root and its own can write, because they could replace the files. If dir
// is empty, it returns nil.
func Open(dir string) (*Map, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory for dcgm-exporter: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory for dcgm-exporter: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir() || info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s must be a directory that only its owner can write", dir)
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s must belong to root or to the driver's user, not to user %d", dir, stat.Uid)
	}
	return &Map{dir: dir}, nil
}

// Add adds a task. A task that does not share its GPUs replaces all others, because they must
// have ended.
func (m *Map) Add(u Use) error {
	return m.change(u, func(others []entry) []entry {
		if !u.Shared {
			others = nil
		}
		tasks := append(others, entry{Task: u.Task, Line: Line(u.Namespace, u.Job)})
		return tasks[max(0, len(tasks)-mostTasks):] // the oldest must have ended
	})
}

// Remove removes a task. Its job stays listed if another task of the job uses the GPU.
func (m *Map) Remove(u Use) error {
	return m.change(u, func(others []entry) []entry { return others })
}

// change replaces the tasks of each GPU that a task uses by what to makes of the other tasks.
func (m *Map) change(u Use, to func(others []entry) []entry) error {
	if m == nil || len(u.GPUs) == 0 {
		return nil
	}
	deadline := time.Now().Add(lockTimeout) // includes the wait for other tasks that wait
	m.mu.Lock()
	defer m.mu.Unlock()
	unlock, err := m.lock(deadline)
	if err != nil {
		return fmt.Errorf("lock the directory for dcgm-exporter: %w", err)
	}
	defer unlock()
	var errs []error
	for _, n := range u.GPUs {
		if n < 0 || n >= mostGPUs {
			errs = append(errs, fmt.Errorf("no GPU has the index %d", n))
			continue
		}
		tasks, err := m.read(n)
		if err == nil {
			tasks = slices.DeleteFunc(tasks, func(e entry) bool { return e.Task == u.Task })
			err = m.write(n, to(tasks))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("change the jobs of GPU %d: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

// lock locks the directory against the other drivers of the client. It tries at least once.
func (m *Map) lock(deadline time.Time) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(m.dir, ".lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) {
			_ = f.Close()
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// read returns the tasks of a GPU. A file that no driver can have written counts as empty: a
// symbolic link, a file that is too long, or one in another format.
func (m *Map) read(n int) ([]entry, error) {
	f, err := os.OpenFile(m.tasks(n), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ELOOP):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return nil, err
	}
	var tasks []entry
	if json.Unmarshal(text, &tasks) != nil {
		return nil, nil
	}
	return tasks, nil
}

// write replaces the tasks of a GPU, and then the list of their jobs.
func (m *Map) write(n int, tasks []entry) error {
	if len(tasks) == 0 {
		// Some versions of dcgm-exporter omit the metrics of a GPU whose file is empty.
		return errors.Join(remove(m.tasks(n)), remove(m.jobs(n)))
	}
	text, err := json.Marshal(tasks)
	if err != nil {
		return err
	}
	if err := m.replace(m.tasks(n), text, 0o600); err != nil {
		return err
	}
	var jobs bytes.Buffer
	listed := map[string]bool{}
	for _, e := range tasks {
		if !listed[e.Line] {
			listed[e.Line] = true
			jobs.WriteString(e.Line + "\n")
		}
	}
	return m.replace(m.jobs(n), jobs.Bytes(), 0o644)
}

// replace replaces a file atomically.
func (m *Map) replace(path string, text []byte, mode fs.FileMode) error {
	next := filepath.Join(m.dir, ".next")
	if err := remove(next); err != nil {
		return err
	}
	if err := os.WriteFile(next, text, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// remove removes a file, if there is one.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// jobs and tasks return the files of a GPU. dcgm-exporter reads only files whose names are
// numbers.
func (m *Map) jobs(n int) string  { return filepath.Join(m.dir, strconv.Itoa(n)) }
func (m *Map) tasks(n int) string { return filepath.Join(m.dir, "."+strconv.Itoa(n)) }

// Line returns the line of a job: its namespace and its ID. dcgm-exporter copies the line into
// a label without escaping, and users choose IDs. So unusual characters become "_", and a hash
// distinguishes such a job from others.
func Line(namespace, job string) string {
	name := namespace + "/" + job
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-_./:@~", r):
			return r
		}
		return '_'
	}, name)
	if clean == name && len(clean) <= longest {
		return clean
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "~" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), longest-len(suffix))] + suffix
}
