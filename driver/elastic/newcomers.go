// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// admitNewcomers admits newcomers to the next ring: as one batch, when no more
// came for a while, and not while an earlier batch starts, which would have to
// start again for a larger ring.
func (m *Machine) admitNewcomers() {
	tooFew := m.Ring() == nil && len(m.layout(ofStaying(m.usable))) < m.opt.MinNP
	if !tooFew && m.batchStarting() {
		return
	}
	var batch []*slot
	m.each(func(h *host, _ Proc, s *slot) {
		if s.state == Down && !s.admitted && h.staying() && !s.leaving && m.wake(s.retryAt) {
			batch = append(batch, s)
		}
	})
	if len(batch) == 0 {
		m.newcomersSince = time.Time{}
		return
	}
	if m.newcomersSince.IsZero() {
		m.newcomersSince = m.now
	}
	due, latest := m.lastNewcomer.Add(m.opt.Debounce), m.newcomersSince.Add(5*m.opt.Debounce)
	if latest.Before(due) {
		due = latest
	}
	if m.wake(due) {
		for _, s := range batch {
			s.admitted = true
		}
		m.newcomersSince = time.Time{}
	}
}

// batchStarting reports whether a newcomer started some time ago and is not in a
// ring yet.
func (m *Machine) batchStarting() bool {
	starting := false
	m.each(func(_ *host, _ Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && m.now.Sub(s.started) > m.opt.Debounce {
			starting = true
		}
	})
	return starting
}

// admitBesideHolders admits dead slots of hosts that hold the state: without them
// the slots above can't be used.
func (m *Machine) admitBesideHolders() {
	m.each(func(h *host, _ Proc, s *slot) {
		if h.staying() && !s.leaving && h.syncOrder() != unsynced && s.state == Down && m.wake(s.retryAt) {
			s.admitted = true
		}
	})
}

// isNewcomer reports whether a member of a plan has not been in a ring.
func (m *Machine) isNewcomer(mem Member) bool {
	s := m.slot(mem.Proc.Slot)
	return s.state != InRing && s.state != Waiting
}

// stageNewcomers starts the newcomers of a plan with their assignments and
// reports whether all of them have arrived. A newcomer with another assignment is
// stopped, and started again when it is gone.
func (m *Machine) stageNewcomers(plan []Member) bool {
	all := true
	planned := map[SlotID]bool{}
	for _, mem := range plan {
		planned[mem.Proc.Slot] = true
		if !m.isNewcomer(mem) {
			continue
		}
		s := m.slot(mem.Proc.Slot)
		switch {
		case s.state == Down:
			s.incarnation, s.state, s.assignment, s.started = mem.Proc.Incarnation, Starting, mem.Assignment, m.now
			m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment})
			all = false
		case s.stopping:
			all = false
		case s.assignment != mem.Assignment:
			m.stop(mem.Proc, true, "the ring it was started for has changed")
			s.restage, all = true, false
		case s.state == Starting:
			all = false
			if m.wake(s.started.Add(m.opt.StageTimeout)) {
				m.stageTimedOut(mem.Proc, s)
			}
		}
	}
	m.each(func(_ *host, p Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && !planned[p.Slot] {
			m.stop(p, true, "it is not needed")
		}
	})
	return all
}

// stageTimedOut ends a newcomer that takes too long to start.
func (m *Machine) stageTimedOut(p Proc, s *slot) {
	m.stop(p, true, "it did not reach %s in %s", m.opt.Framework.Rendezvous, m.opt.StageTimeout)
	s.fail(m.now)
	h := m.hosts[p.Slot.Host]
	m.emit(h.id, "slot %d did not reach %s in %s", p.Slot.Local, m.opt.Framework.Rendezvous, m.opt.StageTimeout)
	if s.failures > m.opt.SlotRestarts {
		h.giveBack("slot %d does not reach %s", p.Slot.Local, m.opt.Framework.Rendezvous)
	}
}
