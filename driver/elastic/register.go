// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"time"
)

// register handles a host that registers, for the first time or again.
func (m *Machine) register(info HostInfo) {
	if m.end != nil && m.end.done {
		m.do(m.end.End)
		return
	}
	h := m.hosts[info.ID]
	if h == nil {
		h = &host{id: info.ID}
		m.hosts[info.ID] = h
	}
	h.group, h.index, h.topology, h.reassigns, h.registered = info.Group, info.Index, info.Topology, info.Reassigns, true
	h.released = false // the action may have been lost with its session
	if info.Leaving {
		m.hostLeaving(HostLeaving{Host: info.ID, Within: time.Duration(info.LeavesIn * float64(time.Second))})
	}
	if slices.ContainsFunc(info.Slots, func(r SlotReport) bool { return r.Restarts }) && !m.inProcess(info.ID) {
		m.restarts = true
	}
	if info.Dropped && h.staying() {
		h.giveBack("Nomad has given this allocation up")
	}
	m.resets = max(m.resets, info.Resets)
	m.adopt(info.Ring)
	m.lastNewcomer = m.now
	if m.Ring() == nil && m.last != nil && slices.ContainsFunc(info.Slots, func(r SlotReport) bool {
		return r.State == InRing && r.Generation == m.last.Generation
	}) {
		m.survivorReturned()
	}
	m.restore(h, info)
	m.review(h)
	m.resumeNext(h, info)
	if r := m.Ring(); r != nil && r.Generation == info.Noticed {
		m.rememberTold()
	}
	m.asked = max(m.asked, info.Noticed)
	if planned := m.restarts && info.CompletedIn > 0 && info.CompletedIn <= m.asked; info.Completed && !planned {
		m.decide(End{Success: true, Reason: "training is complete"})
	}
}

// restore replaces the machine's slots of a host with the reported ones.
func (m *Machine) restore(h *host, info HostInfo) {
	h.slots, h.width = make([]slot, len(info.Slots)), info.Width
	for l, r := range info.Slots {
		s := newSlot(r, m.now)
		if mem := info.Ring.Find(SlotID{info.ID, l}); mem != nil && s.state == Down {
			s.skipTo(mem)
		}
		h.slots[l] = s
	}
	for l, r := range info.Slots {
		number := h.number(l)
		if n := Forgive(r.Failures, r.sinceFailure()); n > m.opt.SlotRestarts && (!m.restarts || !h.besideMember(number)) {
			h.giveBack("slot %d failed %d times", number, n)
		}
		if r.Restarts && r.State == Arrived && !m.restarts {
			m.newcomerFailed(Proc{Slot: SlotID{h.id, l}, Incarnation: r.Incarnation}, otherMode)
		}
	}
}

// review compares the slots that a host reported with the newest ring.
func (m *Machine) review(h *host) {
	if m.last == nil {
		return
	}
	for l := range h.slots {
		m.reviewSlot(SlotID{h.id, l}, &h.slots[l])
	}
}

func (m *Machine) reviewSlot(id SlotID, s *slot) {
	p, mem := Proc{Slot: id, Incarnation: s.incarnation}, m.last.Find(id)
	if mem != nil && s.state == InRing && s.generation == m.last.Generation && s.incarnation > mem.Proc.Incarnation {
		mem.Proc, mem.SyncedSince = p, s.syncedSince // it replaced a process that died while the ring formed
	}
	switch {
	case s.state == Down:
		if mem != nil {
			s.skipTo(mem)
		}
	case mem == nil || mem.Proc != p:
		// The newest ring went on without it, or never included it.
		s.syncedSince = 0
		if s.state == InRing {
			m.stop(p, true, "its ring went on without it")
		}
	case s.state == Waiting && s.stopping: // it retires, and will be in no ring
	case s.generation < m.last.Generation: // it has not learned of its ring yet
		s.syncedSince = mem.SyncedSince
		if m.Ring() != nil {
			s.state, s.generation, s.up = InRing, m.last.Generation, false
			m.resend = true
		}
	}
}

// adopt takes over a newer ring that another leader formed. Its hosts count as present
// until HostLost reports otherwise.
func (m *Machine) adopt(r *Ring) {
	if !r.Newer(m.last) {
		return
	}
	ring := r.clone()
	m.restarts = m.restarts || r.Restarts
	m.startForming(&ring)
	m.wanted = 0
	for _, id := range ring.Hosts() {
		if h := m.hosts[id]; h == nil || !h.leaving {
			m.wanted++
		}
	}
	m.resend = true
	for id, h := range m.hosts {
		if !h.registered { // the host is of a ring that was not the newest after all
			delete(m.hosts, id)
		}
	}
	for _, mem := range ring.Members {
		m.addPlaceholder(mem)
	}
	for _, h := range m.sorted() {
		if h.registered {
			m.review(h)
		}
	}
}

// addPlaceholder adds a member of an adopted ring whose host has yet to register.
func (m *Machine) addPlaceholder(mem Member) {
	id := mem.Proc.Slot
	h := m.hosts[id.Host]
	if h == nil {
		h = &host{id: id.Host}
		m.hosts[id.Host] = h
	}
	if h.registered {
		return
	}
	if m.restarts && id.Local > mem.Assignment.LocalRank {
		h.width = id.Local - mem.Assignment.LocalRank
	}
	for len(h.slots) <= id.Local {
		h.slots = append(h.slots, slot{})
	}
	h.slots[id.Local] = slot{state: InRing, incarnation: mem.Proc.Incarnation, generation: m.last.Generation,
		syncedSince: mem.SyncedSince, up: true, admitted: true}
}
