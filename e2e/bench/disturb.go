// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A deed is one action of a disturbance.
type deed struct {
	at time.Duration
	do func() error
}

// disturb does the deeds that are due, and slows the straggler down.
func (r *runner) disturb() error {
	if r.slow != 0 { // it runs in every second turn
		signal := syscall.SIGSTOP
		if r.paused {
			signal = syscall.SIGCONT
		}
		r.paused = !r.paused
		if err := send(r.slow, signal); err != nil {
			return err
		}
	}
	if r.first.IsZero() {
		return nil
	}
	for len(r.due) > 0 && time.Since(r.first) >= r.due[0].at {
		next := r.due[0]
		r.due = r.due[1:]
		if err := next.do(); err != nil {
			return err
		}
	}
	return nil
}

// then adds a deed.
func (r *runner) then(at time.Duration, do func() error) {
	r.due = append(r.due, deed{at, do})
	slices.SortStableFunc(r.due, func(a, b deed) int { return cmp.Compare(a.at, b.at) })
}

// plan adds the deeds of a disturbance.
func (r *runner) plan(d disturbance) {
	happens := func(do func() error) {
		r.then(d.at, func() error {
			r.run.Events = append(r.run.Events, Happened{At: time.Since(r.first).Seconds(), Cause: d.cause})
			return do()
		})
	}
	back := func() error { return r.set(slices.Clone(localHosts)) }
	switch d.cause {
	case undisturbed:
	case rankKilled:
		happens(func() error { return r.kill(r.ranks() - 1) })
	case leadKilled:
		happens(func() error { return r.kill(0) })
	case nodeLost:
		happens(func() error {
			gone := r.hosts[len(r.hosts)-1]
			if err := r.set(r.hosts[:len(r.hosts)-1]); err != nil {
				return err
			}
			return r.killHost(strings.TrimSuffix(gone, ":1"))
		})
		r.then(d.at+nodeAway, back)
	case drained, slowStart:
		happens(func() error { return r.set(r.hosts[:len(r.hosts)-1]) })
		r.then(d.at+drainTime, func() error {
			text := ""
			if d.cause == slowStart {
				text = fmt.Sprint(slowImport.Seconds())
			}
			if err := os.WriteFile(r.File("import-time"), []byte(cmp.Or(text, "0")), 0o644); err != nil {
				return err
			}
			return back()
		})
		r.then(d.at+drainTime+between, func() error { return os.WriteFile(r.File("import-time"), []byte("0"), 0o644) })
	case halved:
		happens(func() error { return r.set(r.hosts[:2]) })
		r.then(d.at+drainTime, back)
	case hang:
		pid := 0
		happens(func() error {
			pid = r.pid(r.ranks() - 1)
			return send(pid, syscall.SIGSTOP)
		})
		r.then(d.at+patience, func() error { return send(pid, syscall.SIGKILL) })
	case straggler:
		happens(func() error {
			r.slow = r.pid(r.ranks() - 1)
			return nil
		})
		r.then(d.at+slowFor, func() error {
			pid := r.slow
			r.slow, r.paused = 0, false
			return send(pid, syscall.SIGCONT)
		})
	}
}

// set changes the host list.
func (r *runner) set(hosts []string) error {
	r.hosts = slices.Clone(hosts)
	at, err := r.SetHosts(hosts...)
	r.slots = append(r.slots, capacity{at.Sub(r.first).Seconds(), slotsOf(hosts)})
	return err
}

// ranks returns the size of the newest ring.
func (r *runner) ranks() int { return max(1, r.Record.Last().Size) }

// pid returns the process that last had the given rank.
func (r *runner) pid(rank int) int {
	pids := r.Record.PIDs(rank)
	if len(pids) == 0 {
		return 0
	}
	last := r.Record.Where("step", func(e train.Event) bool { return e.Rank == rank })
	return last[len(last)-1].PID
}

func (r *runner) kill(rank int) error { return send(r.pid(rank), syscall.SIGKILL) }

// killHost kills the training processes of a host. Launchers without hosts lose the node with the
// change of the list.
func (r *runner) killHost(host string) error {
	for _, pid := range r.Processes() {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // has ended
		}
		for entry := range strings.SplitSeq(string(environ), "\x00") {
			name, value, _ := strings.Cut(entry, "=")
			if name == "HOROVOD_HOSTNAME" && value == host || name == "KOLO_PROGRESS_FILE" && filepath.Base(filepath.Dir(value)) == host {
				if err := send(pid, syscall.SIGKILL); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// send sends a signal to a process, unless it has ended. It does nothing for pid 0, which would
// address the process group of this process.
func send(pid int, signal syscall.Signal) error {
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, signal); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
