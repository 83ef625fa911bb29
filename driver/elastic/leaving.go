// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"math"
)

// overlap is the ring of those who stay and of those who leave, so that the
// state is handed over. Where max_np leaves no room for all, fewer of those
// who leave are kept, but one at least that holds the state.
func (m *Machine) overlap() []Member {
	room, most := math.MaxInt, 0
	var holder *slot
	if m.opt.MaxNP > 0 {
		most = max(m.opt.MaxNP, 2)
		stay := m.layout(staying(m.usable))
		room = m.opt.MaxNP - len(stay)
		if !m.holdsState(stay) {
			if holder = m.leavingHolder(); holder != nil {
				room--
			}
		}
	}
	return m.layoutMax(func(h *host, s *slot) bool {
		switch {
		case h.staying() && !s.leaving:
			return m.usable(h, s)
		case s == holder:
			return true
		case !live(h, s) || room <= 0:
			return false
		}
		room--
		return true
	}, most)
}

// leavingHolder returns the slot that holds the state longest of those that
// leave, or nil.
func (m *Machine) leavingHolder() *slot {
	var holder *slot
	m.each(func(h *host, _ Proc, s *slot) {
		if (!h.staying() || s.leaving) && live(h, s) && !s.stopping && s.since > 0 && (holder == nil || s.since < holder.since) {
			holder = s
		}
	})
	return holder
}

// letGo says whether hosts that leave need not wait for others any more: all
// leave, and nobody came.
func (m *Machine) letGo() bool {
	for _, h := range m.hosts {
		if !h.leaving {
			return false
		}
	}
	return m.wake(m.leaveFrom.Add(m.opt.LeaveGrace))
}

// handOver is the ring with those who leave, to hand over the state, while
// they wait for others.
func (m *Machine) handOver() []Member {
	if m.letGo() {
		return nil
	}
	return m.overlap()
}

// release ends what hosts that leave have no more use for, and lets them go
// when nothing of theirs runs.
func (m *Machine) release() {
	for _, h := range m.sorted() {
		if h.dismissed {
			continue
		}
		running := false
		for l := range h.slots {
			s := &h.slots[l]
			p := Proc{Slot: SlotID{h.id, l}, Incarnation: s.inc}
			member := m.Ring().Find(p.Slot)
			switch {
			case s.state == Down || h.staying() && !s.leaving:
				continue
			case s.state == Starting || s.state == Arrived:
				m.stop(p, true, "its host leaves")
			case s.state == Waiting && (m.Ring() != nil && (member == nil || member.Proc != p) || m.Ring() == nil && m.letGo()):
				m.stop(p, true, "its host leaves")
			}
			running = true
		}
		if !running && !h.staying() {
			h.dismissed = true
			m.do(Dismiss{Host: h.id, Failed: h.failed && !h.leaving, Reason: cmp.Or(h.why, "its processes have left the ring")})
		}
	}
}

func (m *Machine) anyStaying() bool {
	for _, h := range m.hosts {
		if h.staying() {
			return true
		}
	}
	return false
}
