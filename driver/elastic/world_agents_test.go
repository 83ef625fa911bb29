// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "slices"

// proc returns the slot that runs p, or nil.
func (h *whost) proc(p Proc) *wslot {
	s := &h.slots[p.Slot.Local]
	if s.Incarnation != p.Incarnation || s.State == Down {
		return nil
	}
	return s
}

// receive does what an agent does with one message from the leader.
func (w *world) receive(h *whost, a any) {
	switch a := a.(type) {
	case Start:
		w.start(h, a)
	case Stop:
		if s := h.proc(a.Proc); s != nil {
			s.Retiring = a.Retire && s.State == Waiting
			s.stopped = !s.Retiring
		}
	case Failed:
		h.fail(a.Slot.Local)
	case Notify:
		if w.restarts {
			h.notice(a)
			break
		}
		if h.told[a.Generation].IsZero() {
			h.told[a.Generation] = w.now
		}
		h.info.Noticed = max(h.info.Noticed, a.Generation)
		if a.Proc.Slot.Host != h.info.ID {
			break
		}
		if s := h.proc(a.Proc); s != nil && s.training && s.Generation == a.Generation && w.pick(4) > 0 && !w.busy(a.Generation) {
			w.interrupt(a.Generation)
		}
	case Break:
		for l := range h.slots {
			if s := &h.slots[l]; s.State == InRing && (s.training || w.opt.Framework.AbandonsForming) && !s.hung && s.Generation == a.Generation {
				w.breakRing(h, l)
			}
		}
	case Synced:
		for l := range h.slots {
			if s := &h.slots[l]; s.Generation == a.Generation && s.SyncedSince == 0 {
				s.SyncedSince = a.Generation
			}
		}
	case Form:
		if a.Ring.Newer(h.info.Ring) {
			ring := a.Ring
			h.info.Ring = &ring
		}
		for l := range h.slots {
			w.enter(h, l)
		}
	case ReleaseHost:
		for l := range h.slots {
			if h.slots[l].State != Down {
				w.fail("%s released while slot %d is %v", h.info.ID, l, h.slots[l].State)
			}
		}
		w.remove(h)
		w.step(HostLost{h.info.ID})
	}
}

// start does what an agent does to start a process.
func (w *world) start(h *whost, a Start) {
	s := &h.slots[a.Proc.Slot.Local]
	if s.State != Down || a.Proc.Incarnation <= s.Incarnation {
		w.fail("start of %v over %v#%d", a.Proc, s.State, s.Incarnation)
	}
	*s = wslot{SlotReport: SlotReport{State: Starting, Incarnation: a.Proc.Incarnation, Assignment: a.Assignment, Failures: s.Failures, Surrogate: a.Surrogate}, fails: s.fails}
	if a.Generation == 0 {
		return
	}
	if w.opt.Framework.AbandonsForming {
		w.fail("start of %v in place", a.Proc)
	}
	// It takes the place of one that died while its ring formed.
	m := h.info.Ring.Find(a.Proc.Slot)
	if m == nil || h.info.Ring.Generation != a.Generation {
		w.exit(h, a.Proc.Slot.Local, SlotExited{Status: "it has no place in the ring"})
		return
	}
	ring := *h.info.Ring
	ring.Members = slices.Clone(ring.Members)
	m = ring.Find(a.Proc.Slot)
	m.Proc = a.Proc
	if m.SyncedSince != ring.Generation {
		m.SyncedSince = 0
	}
	h.info.Ring = &ring
	s.State, s.Generation, s.SyncedSince, s.enter = InRing, ring.Generation, m.SyncedSince, true
}

// enter lets a held process into the newest ring it belongs to.
func (w *world) enter(h *whost, l int) {
	s := &h.slots[l]
	m := h.info.Ring.Find(SlotID{h.info.ID, l})
	if m == nil || m.Proc.Incarnation != s.Incarnation || s.Retiring || s.State != Arrived && s.State != Waiting || s.Generation >= h.info.Ring.Generation {
		return
	}
	asks := h.info.Reassigns && !w.restarts && s.Assignment.LocalRank == m.Assignment.LocalRank
	if s.State == Arrived && s.Assignment != m.Assignment && !asks {
		w.fail("%s:%d was started for %+v and is admitted as %+v", h.info.ID, l, s.Assignment, m.Assignment)
	}
	if w.restarts && s.Generation > 0 {
		w.fail("%s:%d was in ring %d and is admitted to %d", h.info.ID, l, s.Generation, h.info.Ring.Generation)
	}
	s.State, s.Generation, s.Up, s.SyncedSince = InRing, h.info.Ring.Generation, false, m.SyncedSince
	if mesh := w.meshOf(h.info.Ring); mesh != nil {
		mesh.in[SlotID{h.info.ID, l}] = s.Incarnation
	}
}

func (w *world) leaveRing(h *whost, l int) {
	s := &h.slots[l]
	for _, mesh := range w.meshes {
		if mesh.ring.Generation == s.Generation && !s.training {
			mesh.dead = true // it was given up while it formed
		}
	}
	w.leaves(s.Generation)
	s.State, s.training, s.Idle, s.lingers, s.busy = Waiting, false, false, false, false
	h.report(SlotWaiting{Proc: Proc{SlotID{h.info.ID, l}, s.Incarnation}, Generation: s.Generation})
}

// interrupt simulates a commit at which all members see the notice.
func (w *world) interrupt(gen uint64) {
	for _, p := range w.training(gen) {
		w.leaveRing(w.host(p.Host), p.Local)
	}
}

// exit ends a process.
func (w *world) exit(h *whost, l int, ev SlotExited) {
	s := &h.slots[l]
	id := SlotID{h.info.ID, l}
	ev.Proc = Proc{id, s.Incarnation}
	for _, mesh := range w.meshes {
		if mesh.in[id] != s.Incarnation || mesh.done || s.State != InRing {
			continue
		}
		if ev.Visible = len(mesh.in) == len(mesh.ring.Members) && w.pick(2) == 0; ev.Visible {
			mesh.dead = true
		}
		delete(mesh.in, id)
	}
	if s.State == InRing {
		w.leaves(s.Generation)
		w.failed[s.Generation] = w.failed[s.Generation] || !w.leavesFor(h)
	}
	*s = wslot{SlotReport: SlotReport{State: Down, Incarnation: s.Incarnation, Failures: s.Failures}, fails: s.fails}
	h.report(ev)
}

// leavesFor reports whether the leader knows that a host is to leave. If the host is cut
// off, the leader learns it together with the end of the host's processes.
func (w *world) leavesFor(h *whost) bool {
	known := w.m.hosts[h.info.ID]
	return h.leaving && known != nil && known.leaving
}

// leaves records when the first member left a ring.
func (w *world) leaves(gen uint64) {
	if w.left[gen].IsZero() {
		w.left[gen] = w.now
	}
}

func (w *world) remove(h *whost) {
	for l := range h.slots {
		if h.slots[l].State != Down {
			w.exit(h, l, SlotExited{})
		}
	}
	w.hosts = slices.DeleteFunc(w.hosts, func(o *whost) bool { return o == h })
}

// run moves one process on.
func (w *world) run(h *whost, l int) {
	s := &h.slots[l]
	p := Proc{SlotID{h.info.ID, l}, s.Incarnation}
	switch {
	case s.State == Down:
	case s.stopped:
		w.exit(h, l, SlotExited{Aborted: w.pick(2) == 0, Status: "stopped"})
	case s.Retiring:
		if w.pick(20) == 0 { // it uploads something
			w.exit(h, l, SlotExited{Success: w.pick(4) > 0, Status: "retired"})
		}
	case s.busy && w.pick(200) == 0:
		s.busy = false
	case s.lingers:
		w.linger(h, l)
	case s.State == Starting:
		s.State = Arrived
		s.Restarts = w.restarts
		h.report(SlotArrived{Proc: p, Restarts: w.restarts})
		w.enter(h, l)
	case s.enter:
		s.enter = false
		if mesh := w.meshOf(h.info.Ring); mesh != nil && mesh.ring.Generation == s.Generation {
			mesh.in[p.Slot] = s.Incarnation
		}
	case s.State == InRing && !s.training && w.opt.Framework.AbandonsForming && w.pick(200) == 0:
		w.loseRing(h, l) // a connection failed
	case w.restarts && s.noticed && !s.hung && w.pick(4) == 0:
		w.exit(h, l, SlotExited{Success: w.pick(2) == 0, Status: "asked to end"})
	case s.State == InRing && s.training && !s.hung && !s.busy:
		if !s.Notifiable {
			s.Notifiable = true
			h.report(SlotNotifiable{p})
		}
		if w.broken(s.Generation) && !w.hangs(s.Generation) && w.pick(3) == 0 {
			w.loseRing(h, l) // noticed the failure by itself
		}
	}
}

// register sends a host's whole knowledge to the leader.
func (w *world) register(h *whost) {
	h.cut, h.up, h.dn = false, nil, nil
	h.info.Slots = nil
	w.widths[h.info.ID] = h.info.Width
	for l := range h.slots {
		h.info.Slots = append(h.info.Slots, h.slots[l].SlotReport)
		h.info.Slots[l].Failures = h.slots[l].fails
	}
	h.info.Leaving = h.leaving
	w.step(HostJoined{h.info})
	if h.keep > 0 {
		w.step(HostSlots{h.info.ID, h.keep})
	}
	if !w.electing {
		w.quorum()
	}
}
