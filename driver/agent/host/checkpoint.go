// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

const (
	// quietTime is how long a checkpoint must stay unchanged to count as complete.
	// movedTime is the shorter time for a checkpoint that was moved into place and that its
	// process does not have open. Scripts that save often may not leave any checkpoint
	// unchanged for longer.
	quietTime, movedTime = time.Second, 200 * time.Millisecond
	// stopTime is the part of the time to leave that is reserved for stopping a process.
	stopTime = 2 * time.Second
	// maxEntries bounds how many files of a directory with checkpoints are examined.
	maxEntries = 10000
)

// requestCheckpoint asks a process that can't change its ring, once, to write its
// checkpoint and to end. The process is stopped after its checkpoint has changed, or when
// its time is up; see endRequests.
func (h *Host) requestCheckpoint(s *slot) {
	h.requested = max(h.requested, s.Generation)
	if s.proc == nil || s.requested() {
		return
	}
	c, p := h.o.Config.Restart.Checkpoint, s.proc
	s.stopAt = time.Now().Add(time.Duration(c.Wait))
	file, path := h.inTask(c.File), h.inTask(c.Path)
	go func() { // the file system may not answer
		before := newest(path)
		if p.Ended() {
			return // the request would reach the next process
		}
		if file != "" {
			if err := touch(file); err != nil {
				h.post(func() {
					h.warnOnce("checkpoint", fmt.Sprintf("checkpoint { file } is not created: %v; create its directory before training starts, with write access for the task's user", err))
				})
			}
		}
		if sig := c.Number(); sig != 0 {
			p.SignalAlone(sig)
		}
		if path != "" && awaitChange(path, before, p) {
			h.post(func() {
				if s.proc == p {
					h.stopSlot(s, false)
				}
			})
		}
	}()
}

// requestCheckpoints asks all processes of the ring on this host for their checkpoints.
func (h *Host) requestCheckpoints() {
	for _, s := range h.slots {
		if s.State == elastic.InRing && s.Restarts {
			h.requestCheckpoint(s)
		}
	}
}

// requested reports whether the process was asked for its checkpoint.
func (s *slot) requested() bool { return !s.stopAt.IsZero() }

// inTask returns the path of a file that is named relative to the processes' working
// directory.
func (h *Host) inTask(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.o.Config.Dir, name)
}

// endRequests stops processes that have not written their checkpoint in time.
func (h *Host) endRequests() {
	now := time.Now()
	for local, s := range h.slots {
		if !s.requested() || s.asked {
			continue
		}
		until := s.stopAt
		if in := h.deadline.Add(-stopTime); h.leaving && in.Before(until) {
			until = in
		}
		if now.After(until) {
			h.o.Events.Emit(fmt.Sprintf("slot %d has not ended in the time for its checkpoint (checkpoint { wait }, kill_timeout) and is stopped: "+
				"training goes back to the last checkpoint", h.number(local)))
			h.stopSlot(s, false)
		}
	}
}

// withdrawRequest removes the file that requests a checkpoint, before processes of the
// next ring see it. It removes nothing but an empty regular file.
func (h *Host) withdrawRequest() {
	file := h.inTask(h.o.Config.Restart.Checkpoint.File)
	if file == "" {
		return
	}
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		_ = os.Remove(file)
	}
}

// touch creates a file, or updates its time. It does not follow a link or wait for a pipe
// that someone else has put there.
func touch(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Futimes(fd, []unix.Timeval{unix.NsecToTimeval(time.Now().UnixNano()), unix.NsecToTimeval(time.Now().UnixNano())})
}

// awaitChange waits until a file or directory has changed and then stays unchanged. After
// a removal, it waits until the file is written again. It returns false if the process
// ends first.
func awaitChange(path string, before version, p *process.Process) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last, since, moved := before, time.Now(), before.inode != 0
	for {
		select {
		case <-p.Done():
			return false
		case <-tick.C:
		}
		switch now := newest(path); {
		case now != last:
			last, since = now, time.Now()
			moved = moved && now.inode != 0 // a file that is replaced is never missing
		case last == (version{}) || last == before:
		case time.Since(since) >= quietTime,
			time.Since(since) >= movedTime && moved && last.inode != before.inode && !hasOpen(p.PID(), path):
			return true
		}
	}
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(links, func(link string) bool {
		open, err := os.Stat(link)
		return err == nil && os.SameFile(info, open)
	})
}

// version describes a checkpoint as seen from outside. The size is part of it, because a
// long write updates the modification time only when it begins. A file that replaces
// another has another inode; the inode of a directory does not count.
type version struct {
	modified, size int64
	inode          uint64
}

// newest returns the version of a file, or of all files below a directory; zero if there
// is none.
func newest(path string) version {
	var v version
	if info, err := os.Stat(path); path != "" && err == nil {
		left := maxEntries
		v.add(path, info, &left)
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && !info.IsDir() {
			v.inode = stat.Ino
		}
	}
	return v
}

func (v *version) add(path string, info os.FileInfo, left *int) {
	v.modified = max(v.modified, info.ModTime().UnixNano())
	if !info.IsDir() {
		v.size += info.Size()
		return
	}
	if *left <= 0 { // to ReadDir, it would mean no limit
		return
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	entries, _ := dir.ReadDir(*left)
	_ = dir.Close()
	*left -= len(entries)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			v.add(filepath.Join(path, e.Name()), info, left)
		}
	}
}
