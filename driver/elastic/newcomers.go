// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"math"
	"time"
)

// admit takes newcomers into the next ring: together, when no more came for a
// while, and not while others are well on their way, who would have to start
// again.
func (m *Machine) admit() {
	open := m.Ring() == nil && len(m.layout(staying(m.usable))) < m.opt.MinNP
	if !open {
		open = m.notStarting()
	}
	if !open {
		return
	}
	var fresh []*slot
	m.each(func(h *host, _ Proc, s *slot) {
		if s.state == Down && !s.admitted && h.staying() && !s.leaving && m.wake(s.retry) {
			fresh = append(fresh, s)
		}
	})
	if len(fresh) == 0 {
		m.pending = time.Time{}
		return
	}
	if m.pending.IsZero() {
		m.pending = m.now
	}
	quiet, latest := m.lastJoin.Add(m.opt.Settle), m.pending.Add(5*m.opt.Settle)
	if latest.Before(quiet) {
		quiet = latest
	}
	if m.wake(quiet) {
		for _, s := range fresh {
			s.admitted = true
		}
		m.pending = time.Time{}
	}
}

// notStarting says that no newcomer is well on its way.
func (m *Machine) notStarting() bool {
	open := true
	m.each(func(_ *host, _ Proc, s *slot) {
		if (s.state == Starting || s.state == Arrived) && m.now.Sub(s.started) > m.opt.Settle {
			open = false
		}
	})
	return open
}

// admitHolders takes back dead slots of hosts that hold the state: while they
// are missing the slots above them can't be used.
func (m *Machine) admitHolders() {
	m.each(func(h *host, _ Proc, s *slot) {
		if h.staying() && !s.leaving && h.age() != math.MaxUint64 && s.state == Down && m.wake(s.retry) {
			s.admitted = true
		}
	})
}

// fresh says whether a member needs to be started or has not been let in.
func (m *Machine) fresh(mem Member) bool {
	s := m.slot(mem.Proc.Slot)
	return s.state != InRing && s.state != Waiting
}

// stage starts the newcomers of a planned ring with their ranks and says
// whether all of them have arrived. A newcomer started for another place is
// ended; it is started again when it is gone.
func (m *Machine) stage(plan []Member) bool {
	all := true
	planned := map[SlotID]bool{}
	for _, mem := range plan {
		planned[mem.Proc.Slot] = true
		if !m.fresh(mem) {
			continue
		}
		s := m.slot(mem.Proc.Slot)
		switch {
		case s.state == Down:
			s.inc, s.state, s.assign, s.started = mem.Proc.Incarnation, Starting, mem.Assignment, m.now
			m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment})
			all = false
		case s.stopping:
			all = false
		case s.assign != mem.Assignment:
			m.stop(mem.Proc, true, "the ring it was started for has changed")
			s.restage, all = true, false
		case s.state == Starting:
			all = false
			if m.wake(s.started.Add(m.opt.StageTimeout)) {
				m.overdue(mem.Proc, s)
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

func (m *Machine) overdue(p Proc, s *slot) {
	m.stop(p, true, "it did not reach Horovod's rendezvous in %s", m.opt.StageTimeout)
	s.fail(m.now)
	h := m.hosts[p.Slot.Host]
	m.tell(h.id, "slot %d did not reach Horovod's rendezvous in %s", p.Slot.Local, m.opt.StageTimeout)
	if s.failures > m.opt.SlotRestarts {
		h.failed, h.why = true, fmt.Sprintf("slot %d does not reach Horovod's rendezvous", p.Slot.Local)
	}
}
