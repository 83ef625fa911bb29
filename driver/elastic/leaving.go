// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"math"
)

// handoffPlan returns a ring in which leaving slots hand over the state to slots that stay.
// If max_np leaves no room for all, it keeps fewer of the leaving slots. If no other slot
// has the state, one of those kept does.
func (m *Machine) handoffPlan() []Member {
	if m.replicated() {
		return m.handoffReplicas()
	}
	room, limit := math.MaxInt, 0
	var holder *slot
	if m.opt.MaxNP > 0 {
		limit = max(m.opt.MaxNP, 2)
		stay := m.layout(ofStaying(m.usable))
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
	}, limit)
}

// leavingHolder returns the leaving slot that has had the state longest, or nil.
func (m *Machine) leavingHolder() *slot {
	var holder *slot
	m.each(func(h *host, _ Proc, s *slot) {
		if (!h.staying() || s.leaving) && live(h, s) && !s.stopping && s.syncedSince > 0 && (holder == nil || s.syncedSince < holder.syncedSince) {
			holder = s
		}
	})
	return holder
}

// handoffExpired reports whether leaving hosts no longer wait for newcomers, because all
// hosts are leaving and no newcomer came in time.
func (m *Machine) handoffExpired() bool {
	for _, h := range m.hosts {
		if !h.leaving {
			return false
		}
	}
	return m.wake(m.leavingSince.Add(m.opt.LeaveGrace))
}

// releaseHosts stops processes of leaving hosts that no ring needs, and releases
// hosts without a process.
func (m *Machine) releaseHosts() {
	for _, h := range m.sorted() {
		if h.released {
			continue
		}
		running := m.releaseSlots(h)
		if !running && !h.staying() {
			h.released = true
			m.do(ReleaseHost{Host: h.id, Failed: h.failed && !h.leaving, Reason: cmp.Or(h.failReason, "its processes have left the ring")})
		}
	}
}

// releaseSlots stops processes of the host's leaving slots that no ring needs, and
// reports whether one of these slots still runs.
func (m *Machine) releaseSlots(h *host) bool {
	running := false
	for l := range h.slots {
		s := &h.slots[l]
		if s.state == Down || h.staying() && !s.leaving {
			continue
		}
		running = true
		p := Proc{Slot: SlotID{h.id, l}, Incarnation: s.incarnation}
		switch {
		case s.state == Starting || s.state == Arrived:
			m.stop(p, true, "its host leaves")
		case s.state == Waiting && !m.needed(p):
			m.retire(p, "its host leaves")
		}
	}
	return running
}

// needed reports whether a ring may still need a waiting process that leaves. While a ring
// exists, it needs its members. Otherwise the process is needed until the time to hand over
// the state is up.
func (m *Machine) needed(p Proc) bool {
	if r := m.Ring(); r != nil {
		mem := r.Find(p.Slot)
		return mem != nil && mem.Proc == p
	}
	return !m.handoffExpired()
}

func (m *Machine) anyStaying() bool {
	for _, h := range m.hosts {
		if h.staying() {
			return true
		}
	}
	return false
}
