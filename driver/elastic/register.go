// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

// join takes in a host that registers, or registers again, with all it knows.
func (m *Machine) join(info HostInfo) {
	if m.end != nil && m.end.done {
		m.do(m.end.End)
		return
	}
	h := m.hosts[info.ID]
	if h == nil {
		h = &host{id: info.ID}
		m.hosts[info.ID] = h
	}
	h.group, h.index, h.known = info.Group, info.Index, true
	h.dismissed = false // what it was told may have been lost with its session
	if info.Leaving {
		m.leave(HostLeaving{Host: info.ID})
	}
	if info.Dropped && h.staying() {
		h.failed, h.why = true, "Nomad has given this allocation up"
	}
	m.resets = max(m.resets, info.Resets)
	m.adopt(info.Ring)
	m.lastJoin = m.now
	if m.Ring() == nil && m.last != nil && slices.ContainsFunc(info.Slots, func(r SlotReport) bool {
		return r.State == InRing && r.Generation == m.last.Generation
	}) {
		m.survivorReturned()
	}

	h.slots = make([]slot, len(info.Slots))
	for l, r := range info.Slots {
		s := &h.slots[l]
		*s = slot{state: r.State, inc: r.Incarnation, assign: r.Assignment, gen: r.Generation,
			up: r.Up, notifiable: r.Notifiable, standIn: r.StandIn, failures: r.Failures, started: m.now, admitted: r.State != Down}
		s.since = r.Since
		// One that was to replace it in place may never have been started; its
		// name stands in rings that the host may yet be let into.
		if mem := info.Ring.Find(SlotID{info.ID, l}); mem != nil && s.state == Down {
			s.inc = max(s.inc, mem.Proc.Incarnation)
		}
		ago := time.Duration(r.FailedAgo * float64(time.Second))
		s.failed = m.now.Add(-ago)
		if n := Forgive(r.Failures, ago); n > m.opt.SlotRestarts {
			h.failed, h.why = true, fmt.Sprintf("slot %d failed %d times", l, n)
		}
	}
	m.review(h)
	if info.Completed {
		m.decide(End{Success: true, Reason: "training is complete"})
	}
}

// review holds what a host reported against the newest ring.
func (m *Machine) review(h *host) {
	for l := range h.slots {
		s := &h.slots[l]
		if m.last == nil {
			continue
		}
		p := Proc{Slot: SlotID{h.id, l}, Incarnation: s.inc}
		mem := m.last.Find(p.Slot)
		if s.state == Down {
			if mem != nil {
				s.inc = max(s.inc, mem.Proc.Incarnation)
			}
			continue
		}
		if mem != nil && s.inc > mem.Proc.Incarnation && s.state == InRing && s.gen == m.last.Generation {
			mem.Proc, mem.Since = p, s.since // it replaced one that died while the ring formed
		}
		switch {
		case mem == nil || mem.Proc != p:
			// The newest ring went on without it, or never had it.
			s.since = 0
			if s.state == InRing {
				m.stop(p, true, "its ring went on without it")
			}
		case s.gen < m.last.Generation: // it has not heard of its ring yet
			s.since = mem.Since
			if m.Ring() != nil {
				s.state, s.gen, s.up, m.unheard = InRing, m.last.Generation, false, true
			}
		}
	}
}

// adopt takes over the ring of an earlier leader. Its hosts count as present
// until HostLost says otherwise.
func (m *Machine) adopt(r *Ring) {
	if !r.Newer(m.last) {
		return
	}
	ring := r.clone()
	m.startForming(&ring)
	for id, h := range m.hosts {
		if !h.known { // of a ring that turned out not to be the newest
			delete(m.hosts, id)
		}
	}
	for _, mem := range ring.Members {
		id := mem.Proc.Slot
		h := m.hosts[id.Host]
		switch {
		case h == nil:
			h = &host{id: id.Host}
			m.hosts[id.Host] = h
			fallthrough
		case !h.known:
			for len(h.slots) <= id.Local {
				h.slots = append(h.slots, slot{})
			}
			h.slots[id.Local] = slot{state: InRing, inc: mem.Proc.Incarnation, gen: ring.Generation, since: mem.Since, up: true, admitted: true}
		}
	}
	for _, h := range m.sorted() {
		if h.known {
			m.review(h)
		}
	}
	m.unheard = true
}
