// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"strings"
	"time"
)

// torch is the framework whose scripts may run unmodified.
var torch = Framework{AbandonsForming: true, LocalGaps: true}

// number returns the slot that an entry of a host belongs to.
func (w *world) number(id SlotID) SlotID {
	if n := w.widths[id.Host]; n > 0 {
		id.Local %= n
	}
	return id
}

// fail counts a failure of a slot, in both of its entries.
func (h *whost) fail(local int) {
	for l := range h.slots {
		if l == local || h.info.Width > 0 && l%h.info.Width == local%h.info.Width {
			h.slots[l].fails++
		}
	}
}

// notice asks a process to save a checkpoint and end.
func (h *whost) notice(a Notify) {
	if s := h.proc(a.Proc); s != nil && s.State == InRing && s.Generation == a.Generation {
		s.noticed, h.info.Noticed = true, a.Generation
	}
}

// loseRing does what a process does when its ring breaks.
func (w *world) loseRing(h *whost, l int) {
	if w.restarts {
		w.exit(h, l, SlotExited{Status: "connection lost"})
		return
	}
	w.leaveRing(h, l)
}

// timeToLeave returns the time to leave that a leaving host reports.
func (w *world) timeToLeave() time.Duration {
	if !w.restarts {
		return 0
	}
	return time.Duration(w.pick(30)) * time.Second
}

// checkStandbys fails if a ring that forms breaks the rules for processes that can't
// change their ring.
func (w *world) checkStandbys(r *Ring) {
	taken := map[SlotID]bool{}
	for _, mem := range r.Members {
		if id := w.number(mem.Proc.Slot); taken[id] {
			w.fail("ring %s has %s twice", ringKey(r), id)
		} else if taken[id] = true; !w.restarts && id != mem.Proc.Slot {
			w.fail("ring %s has the standby %s", ringKey(r), mem.Proc.Slot)
		}
	}
	if !w.restarts || w.meshOf(r) != nil {
		return
	}
	for _, h := range w.hosts {
		for l, s := range h.slots {
			if !h.cut && (s.State == InRing || s.State == Waiting) {
				w.fail("ring %s forms while %s:%d is in ring %d", ringKey(r), h.info.ID, l, s.Generation)
			}
		}
	}
}

// checkEnd fails if the end of the job does not fit the state of the world.
func (w *world) checkEnd(end End) {
	if end.Success {
		w.fail("no process had come to its end: %s", end.Reason)
	}
	if w.restarts && strings.Contains(end.Reason, "training state") {
		w.fail("no process holds it: %s", end.Reason)
	}
	for _, h := range w.hosts {
		for l, s := range h.slots {
			if !h.cut && s.State != Down {
				w.fail("%s:%d outlives the job, %v", h.info.ID, l, s.State)
			}
		}
	}
}

// checkAtRest fails if the processes outside a ring that trains are not the spares that
// it is to have.
func (w *world) checkAtRest(ring *Ring) {
	if !w.restarts {
		w.checkSpares(ring)
		return
	}
	members := map[SlotID]Member{}
	for _, mem := range ring.Members {
		members[w.number(mem.Proc.Slot)] = mem
	}
	spares := map[SlotID]bool{}
	for _, h := range w.hosts {
		for l, s := range h.slots {
			id := SlotID{h.info.ID, l}
			mem, ok := members[w.number(id)]
			switch {
			case s.State == Down || mem.Proc.Slot == id:
			case !w.opt.Spares || !ok || s.State != Arrived || s.Assignment != mem.Assignment:
				w.fail("%s is %v outside of the ring", id, s.State)
			default:
				spares[mem.Proc.Slot] = true
			}
		}
	}
	for _, mem := range ring.Members {
		id := mem.Proc.Slot
		if w.opt.Spares && w.standbys && !spares[id] && w.m.slot(id).failures <= w.opt.SlotRestarts {
			w.fail("%s has no spare", id)
		}
	}
}
