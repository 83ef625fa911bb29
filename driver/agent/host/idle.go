// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
)

// Some processes do not leave a ring that breaks: a process that has sent or received a part of a
// message may wait in Gloo for minutes (see restartIdle in package elastic). The host recognizes
// such a process because it uses no CPU time.

const (
	// idleInterval is the time between two looks at a process.
	idleInterval = 250 * time.Millisecond
	// idleUse is the most CPU time that an idle process uses in IdleTime. It is not 0,
	// because each of Gloo's threads wakes up every 10 ms (Loop::run,
	// gloo/transport/tcp/loop.cc); four of them use 1 % of a CPU.
	idleUse = elastic.IdleTime / 40
	// clockTick is the unit of time in /proc.
	clockTick = 10 * time.Millisecond
)

// idleWatch follows the activity of a process in a ring that broke.
type idleWatch struct {
	looked time.Time
	since  time.Time     // since when it has been idle
	used   time.Duration // its CPU time at that moment
	idle   bool
}

// watchIdle checks a process that is still in a broken ring, and reports to the leader when it
// becomes idle or busy.
func (h *Host) watchIdle(p elastic.Proc, s *slot) {
	now := time.Now()
	if s.watch == nil || s.proc == nil || now.Sub(s.watch.looked) < idleInterval {
		return
	}
	s.watch.look(now, activityOf(s.proc.PID()))
	if s.watch.idle != s.Idle {
		s.Idle = s.watch.idle
		h.send(&wire.ToLeader{Idle: &elastic.SlotIdle{Proc: p, Generation: s.Generation, Idle: s.Idle}})
	}
}

func (w *idleWatch) look(now time.Time, a activity) {
	w.looked = now
	switch {
	case a.held || a.used > w.used+idleUse || a.used < w.used: // less after a descendant has ended
		w.since, w.used, w.idle = now, a.used, false
	case now.Sub(w.since) >= elastic.IdleTime:
		w.since, w.used, w.idle = now, a.used, true
	}
}

// activity is the work of a process and its descendants, as seen from outside.
type activity struct {
	used time.Duration // CPU time of their threads
	// held states that one of the threads waits for a disk or a file server, or was stopped, for
	// example by a debugger. Such a process does not hang, because this passes.
	held bool
	// disk states that a thread waits for a disk or a file server, traced that a
	// debugger holds one, and runs that one runs or waits for a CPU.
	disk, traced, runs bool
	// stopped states that a signal has stopped all threads of one of the processes.
	stopped bool
}

func activityOf(pid int) activity {
	var a activity
	pids, _ := localpeer.Descendants(pid) // none if the process is gone
	for _, p := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p))
		stopped := 0
		for _, path := range threads {
			stat, _ := os.ReadFile(path) // empty if the thread is gone
			if a.add(stat) == 'T' {
				stopped++
			}
		}
		a.stopped = a.stopped || stopped > 0 && stopped == len(threads)
	}
	return a
}

// add adds the values of a line in the format of /proc/<pid>/stat, and returns the thread's
// state, 0 if unknown.
func (a *activity) add(stat []byte) (letter byte) {
	const state, utime, stime = 0, 11, 12 // counted after the command, which is in brackets and may contain anything
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[utime]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[stime]), 10, 64)
	a.used += time.Duration(user+system) * clockTick
	letter = fields[state][0]
	a.held = a.held || letter == 'D' || letter == 'T' || letter == 't'
	a.disk = a.disk || letter == 'D'
	a.traced = a.traced || letter == 't'
	a.runs = a.runs || letter == 'R'
	return letter
}
