// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// watching is the state of a leader's request to watch the processes of a ring.
type watching struct {
	request wire.Watch
	began   time.Time
	looked  time.Time
	sights  map[int]*sight // by entry
}

// sight holds what was seen of one process.
type sight struct {
	proc                         elastic.Proc
	first, last                  time.Duration // CPU time
	looks                        int
	stopped, disk, traced, ready int // looks that saw this
}

// watch begins to watch the processes of the ring.
func (h *Host) watch(request wire.Watch) {
	if request.Ring == wire.IDOf(h.ring) {
		h.watching = &watching{request: request, began: time.Now(), sights: map[int]*sight{}}
	}
}

// watchRing looks at the processes of a ring that the leader asked about, and answers after
// elastic.IdleTime, or earlier if a process is stopped.
func (h *Host) watchRing(now time.Time) {
	w := h.watching
	if w == nil || now.Sub(w.looked) < idleInterval {
		return
	}
	w.looked = now
	for local, s := range h.slots {
		if s.State != elastic.InRing || s.Generation != w.request.Ring.Generation || s.proc == nil {
			continue
		}
		if seen := w.sights[local]; seen == nil || seen.proc != h.proc(local) {
			w.sights[local] = &sight{proc: h.proc(local)}
		}
		w.sights[local].look(activityOf(s.proc.PID()))
	}
	if after := now.Sub(w.began); after < elastic.IdleTime && (after < wire.StoppedTime || !w.stopped()) {
		return
	}
	h.watching = nil
	answer := &wire.Watched{Ring: w.request.Ring, Number: w.request.Number}
	for local := range h.slots {
		if seen := w.sights[local]; seen != nil {
			answer.Activities = append(answer.Activities, wire.Activity{Proc: seen.proc, Activity: string(seen.activity())})
		}
	}
	h.send(&wire.ToLeader{Watched: answer})
}

// stopped reports whether one of the processes was stopped by a signal at all looks.
func (w *watching) stopped() bool {
	for _, seen := range w.sights {
		if seen.stopped == seen.looks && seen.looks > 1 {
			return true
		}
	}
	return false
}

func (s *sight) look(a activity) {
	if s.looks == 0 {
		s.first = a.used
	}
	s.looks++
	s.last = a.used
	for count, seen := range map[*int]bool{&s.stopped: a.stopped, &s.disk: a.disk, &s.traced: a.traced, &s.ready: a.runs} {
		if seen {
			*count++
		}
	}
}

// activity judges a process by all looks at it. A process that was ready to run half of the
// time is busy, because other processes may keep the CPUs from it.
func (s *sight) activity() stall.Activity {
	switch {
	case s.stopped == s.looks:
		return stall.Stopped
	case s.last > s.first+idleUse, s.last < s.first, 2*s.ready > s.looks, s.traced > 0: // less CPU time after a descendant has ended
		return stall.Busy
	case s.disk == s.looks:
		return stall.Disk
	default:
		return stall.Idle
	}
}

// slowed handles a script's statement that its next step takes long, or that this is over.
func (h *Host) slowed(s *slot, reason string) {
	if local := slices.Index(h.slots, s); s.slow != reason && local >= 0 {
		s.slow = reason
		h.send(&wire.ToLeader{Slow: &wire.Slow{Proc: h.proc(local), Generation: s.Generation, Reason: reason}})
	}
}

// reportSlow repeats the statements of slow steps for a new leader.
func (h *Host) reportSlow() {
	for local, s := range h.slots {
		if s.State == elastic.InRing && s.slow != "" {
			h.send(&wire.ToLeader{Slow: &wire.Slow{Proc: h.proc(local), Generation: s.Generation, Reason: s.slow}})
		}
	}
}
