// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"time"
)

// collateralDelay precedes the restart of a process that ended because its ring
// broke.
const collateralDelay = time.Second

// slotExited handles the end of a process.
func (m *Machine) slotExited(ev SlotExited) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	was := *s
	*s = slot{incarnation: s.incarnation, generation: s.generation, leaving: s.leaving, failures: s.failures, failedAt: s.failedAt, retryAt: m.now}
	switch {
	case m.end != nil:
	case was.stopping:
		s.admitted = was.restage
	case ev.Success && (was.state == InRing || m.last == nil):
		if was.state == Starting {
			m.emit(ev.Proc.Slot.Host, "slot %d exited 0 %s; does the script use it?", ev.Proc.Slot.Local, m.during(was.state))
		}
		m.decide(End{Success: true, Reason: fmt.Sprintf("training is complete: %s exited 0", ev.Proc.Slot)})
	case ev.Success:
		ev.Status = "exited 0 before it joined the ring"
		m.slotFailed(ev, s, was)
	case ev.Aborted && was.state == InRing && m.broken():
		s.retryAt = m.now.Add(collateralDelay)
	default:
		m.slotFailed(ev, s, was)
	}
}

// slotFailed counts a failure of a process. Its slot is started again, or its
// host is given back.
func (m *Machine) slotFailed(ev SlotExited, s *slot, was slot) {
	h, local := m.hosts[ev.Proc.Slot.Host], ev.Proc.Slot.Local
	s.fail(m.now)
	m.lastFailure = ev.Status
	delay := backoff(s.failures)
	s.retryAt = m.now.Add(delay)
	if s.failures > m.opt.SlotRestarts {
		h.giveBack("slot %d failed %d times, the last time %s: %s", local, s.failures, m.during(was.state), ev.Status)
		m.emit(h.id, "%s; the host is given back", h.failReason)
		return
	}
	if mem := m.replaceable(ev, was); mem != nil && h.staying() {
		m.replace(mem, s, ev.Status)
		return
	}
	m.emit(h.id, "slot %d ended %s: %s; restart %d of %d in %s", local, m.during(was.state), ev.Status,
		s.failures, m.opt.SlotRestarts, delay)
}

// replaceable returns the member that a process was, where no other member has
// learned its address, and nil otherwise: the others wait in the rendezvous, and
// do not notice when another process takes its place.
func (m *Machine) replaceable(ev SlotExited, was slot) *Member {
	mem := m.Ring().Find(ev.Proc.Slot)
	if m.opt.Framework.AbandonsForming || mem == nil || mem.Proc != ev.Proc || m.intact() == nil || ev.Visible ||
		was.state != InRing || was.generation != m.last.Generation || was.up {
		return nil
	}
	return mem
}

// replace starts another process in place of one that died while its ring forms.
func (m *Machine) replace(mem *Member, s *slot, status string) {
	s.incarnation++
	s.state, s.generation, s.started, s.admitted = InRing, m.last.Generation, m.now, true
	mem.Proc.Incarnation = s.incarnation
	s.surrogate = mem.Assignment.Rank == 0 && mem.SyncedSince != m.last.Generation
	if mem.SyncedSince != m.last.Generation { // else no member holds more than a new process
		mem.SyncedSince = 0
	}
	s.syncedSince = mem.SyncedSince
	m.intact().formed = m.now // the new process has to import first
	m.emit(mem.Proc.Slot.Host, "slot %d ended with %s while ring %d formed; replaced in place", mem.Proc.Slot.Local, status, m.last.Generation)
	m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment, Generation: m.last.Generation, Surrogate: s.surrogate})
}

func backoff(failures int) time.Duration {
	return min(time.Second<<min(failures-1, 6), time.Minute)
}

// during describes the state in which a process ended.
func (m *Machine) during(s SlotState) string {
	switch s {
	case Starting:
		return "before it reached " + m.opt.Framework.Rendezvous
	case Arrived:
		return "while it waited to join"
	case Waiting:
		return "while it waited for the next ring"
	default:
		return "while training"
	}
}
