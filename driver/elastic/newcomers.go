// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"time"
)

// admitNewcomers admits newcomers to the next ring as one batch, once no more have come for
// a while. It waits while an earlier batch starts, because a larger ring would make that
// batch start again.
func (m *Machine) admitNewcomers() {
	tooFew := m.Ring() == nil && len(m.layout(ofStaying(m.usable))) < m.opt.MinNP
	if !tooFew && m.batchStarting() {
		return
	}
	var batch []*slot
	m.each(func(h *host, p Proc, s *slot) {
		number := h.number(p.Slot.Local)
		if number == p.Slot.Local && !h.admitted(number) && s.state == Down && h.staying() && !s.leaving && m.wake(s.retryAt) {
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

// batchStarting reports whether a newcomer, started longer ago than Debounce, is not in
// a ring yet. If spares are kept, a newcomer may be a spare that never arrives, and another
// one joins before it.
func (m *Machine) batchStarting() bool {
	if m.keepsSpares() {
		return false
	}
	starting := false
	m.each(func(_ *host, p Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && m.now.Sub(s.started) > m.opt.Debounce && !m.isSpare(p, s) {
			starting = true
		}
	})
	return starting
}

// admitBesideHolders admits dead slots of hosts that have the state. Without them, the
// slots with higher numbers can't be used.
func (m *Machine) admitBesideHolders() {
	m.each(func(h *host, p Proc, s *slot) {
		if p.Slot.Local < h.offered() && h.staying() && !s.leaving && h.syncOrder() != unsynced && s.state == Down && m.wake(s.retryAt) {
			s.admitted = true
		}
	})
}

// isNewcomer reports whether a member of a plan must be started first. If processes can't
// change their ring, every member must.
func (m *Machine) isNewcomer(mem Member) bool {
	return m.restarts || !live(nil, m.slot(mem.Proc.Slot))
}

// stageNewcomers starts the newcomers of a plan with their assignments, and reports whether
// all of them have arrived. A newcomer that was started for another place, and can't take
// this one, is stopped, and started again once it has exited. If spares are kept, a newcomer
// that is not in the plan keeps running, because it may be needed at any time.
func (m *Machine) stageNewcomers(plan []Member) bool {
	all := true
	planned := map[SlotID]bool{}
	for _, mem := range plan {
		planned[mem.Proc.Slot] = true
		if m.isNewcomer(mem) && !m.stage(mem, m.slot(mem.Proc.Slot)) {
			all = false
		}
	}
	m.each(func(_ *host, p Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && !planned[p.Slot] && !m.keepsSpares() {
			m.stop(p, true, "it is not needed")
		}
	})
	return all
}

// stage moves a newcomer of a plan on and reports whether it has arrived.
func (m *Machine) stage(mem Member, s *slot) (arrived bool) {
	switch {
	case m.startsLater(mem.Proc.Slot, s):
		return true
	case live(nil, s), s.stopping, s.state == Down && !m.wake(s.retryAt):
	case s.state == Down:
		s.incarnation, s.state, s.assignment, s.started = mem.Proc.Incarnation, Starting, mem.Assignment, m.now
		m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment})
	case !m.fits(s, mem):
		m.stop(mem.Proc, true, "the ring it was started for has changed")
		s.restage = true
	case s.state == Arrived:
		return true
	case m.wake(s.started.Add(m.opt.StageTimeout)):
		m.newcomerFailed(mem.Proc, fmt.Sprintf("did not reach %s in %s", m.opt.Framework.Rendezvous, m.opt.StageTimeout))
	}
	return false
}

// fits reports whether a process that was started for a place can take the place of a
// member. Its environment contains the place for which it was started. A process that asks
// its agent for its place may take another one, but keeps its local rank, by which it chose
// its GPU. Whether a process asks is known when it arrives, or from earlier rings.
func (m *Machine) fits(s *slot, mem Member) bool {
	h := m.hosts[mem.Proc.Slot.Host]
	asks := h != nil && h.reassigns && !m.restarts && (s.state == Arrived || m.last != nil)
	return s.assignment == mem.Assignment || asks && s.assignment.LocalRank == mem.Assignment.LocalRank
}

// newcomerFailed stops a newcomer that can't join, once, and counts the failure.
func (m *Machine) newcomerFailed(p Proc, why string) {
	if m.slot(p.Slot).stopping {
		return
	}
	m.stop(p, true, "it %s", why)
	h, number := m.hosts[p.Slot.Host], m.number(p.Slot).Local
	m.emit(h.id, "slot %d %s", number, why)
	if failures, _ := h.fail(number, m.now); failures > m.opt.SlotRestarts {
		m.restartsSpent(h, number, why)
	}
}
