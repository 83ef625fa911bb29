// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package jobmap lists the jobs that use each GPU of a client, in files that dcgm-exporter
// reads (--hpc-job-mapping-dir). Each file is named after the index of a GPU, and has one job
// per line.
//
// Several drivers of a client may share a directory.
package jobmap

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Bounds of the files, far above the GPUs of a machine and the instances of a GPU.
const (
	mostGPUs = 1024
	mostJobs = 64  // of one GPU
	longest  = 200 // characters of a job
)

// Use describes the GPUs that a task uses.
type Use struct {
	Namespace, Job string
	GPUs           []int // NVML's indexes
	Shared         bool  // other tasks may use other MIG instances of the GPUs
}

// Map manages the files in a directory. It is safe for concurrent use. A nil Map has no
// directory, and its methods do nothing.
type Map struct {
	dir string

	mu    sync.Mutex
	tasks map[string]int // number of tasks of a job that use a GPU, by "index line"
}

// Open returns a Map in a directory, which it creates if needed. It refuses a directory
// that users other than its owner can write, because they could replace the files. If dir is
// empty, it returns nil.
func Open(dir string) (*Map, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory for dcgm-exporter: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the directory for dcgm-exporter: %w", err)
	case !info.IsDir() || info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("%s must be a directory that only its owner can write", dir)
	}
	return &Map{dir: dir, tasks: map[string]int{}}, nil
}

// Add adds a task. A task that does not share its GPUs replaces all other jobs, because they
// must have ended.
func (m *Map) Add(u Use) error {
	return m.change(u, func(n int, line string, jobs []string) []string {
		m.tasks[key(n, line)]++
		switch {
		case !u.Shared:
			return []string{line}
		case slices.Contains(jobs, line) || len(jobs) >= mostJobs:
			return jobs
		}
		return append(jobs, line)
	})
}

// Remove removes a task that was added.
func (m *Map) Remove(u Use) error {
	return m.change(u, func(n int, line string, jobs []string) []string {
		if m.tasks[key(n, line)]--; m.tasks[key(n, line)] > 0 {
			return jobs // another task of the job uses the GPU
		}
		delete(m.tasks, key(n, line))
		return slices.DeleteFunc(jobs, func(job string) bool { return job == line })
	})
}

func key(n int, line string) string { return strconv.Itoa(n) + " " + line }

// change applies to to the list of jobs of each GPU that a task uses.
func (m *Map) change(u Use, to func(n int, line string, jobs []string) []string) error {
	if m == nil || len(u.GPUs) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	line := Line(u.Namespace, u.Job)
	var errs []error
	for _, n := range u.GPUs {
		if n < 0 || n >= mostGPUs {
			errs = append(errs, fmt.Errorf("no GPU has the index %d", n))
			continue
		}
		jobs, err := m.read(n)
		if err == nil {
			err = m.write(n, to(n, line, jobs))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lock locks the directory against the other drivers of the client.
func (m *Map) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(m.dir, ".lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory for dcgm-exporter: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the directory for dcgm-exporter: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// read returns the jobs of a GPU. A file that is too long for a driver to have written it
// counts as empty.
func (m *Map) read(n int) ([]string, error) {
	text, err := os.ReadFile(m.path(n))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the jobs of GPU %d: %w", n, err)
	case len(text) > mostJobs*(longest+1):
		return nil, nil
	}
	return strings.Fields(string(text)), nil
}

// write replaces the file of a GPU atomically. It removes the file if there are no jobs,
// because some versions of dcgm-exporter omit the metrics of a GPU whose file is empty.
func (m *Map) write(n int, jobs []string) error {
	if len(jobs) == 0 {
		if err := os.Remove(m.path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the jobs of GPU %d: %w", n, err)
		}
		return nil
	}
	var text bytes.Buffer
	for _, job := range jobs {
		text.WriteString(job + "\n")
	}
	// dcgm-exporter reads only files whose names are numbers.
	next := filepath.Join(m.dir, ".next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the jobs of GPU %d: %w", n, err)
	}
	if err := os.WriteFile(next, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the jobs of GPU %d: %w", n, err)
	}
	if err := os.Rename(next, m.path(n)); err != nil {
		return fmt.Errorf("write the jobs of GPU %d: %w", n, err)
	}
	return nil
}

func (m *Map) path(n int) string { return filepath.Join(m.dir, strconv.Itoa(n)) }

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
