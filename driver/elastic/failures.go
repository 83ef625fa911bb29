// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"time"
)

// collateralDelay is the pause before the restart of a process that ended because its ring
// broke.
const collateralDelay = time.Second

// slotExited handles the end of a process.
func (m *Machine) slotExited(ev SlotExited) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	was, id := *s, m.number(ev.Proc.Slot)
	if r := m.Ring(); ev.Noticed && m.restarts && was.state == InRing && r != nil && r.Generation == was.generation {
		m.rememberNotice()
	}
	*s = slot{incarnation: s.incarnation, generation: s.generation, leaving: s.leaving, failures: s.failures, failedAt: s.failedAt, retryAt: m.now,
		admitted: m.restarts && s.admitted}
	switch {
	case m.end != nil:
	case was.stopping:
		s.admitted = s.admitted || was.restage
	case m.restarts && was.state == InRing && m.noticed(): // it was asked to end
	case ev.Success && (was.state == InRing || m.last == nil):
		if was.state == Starting {
			m.emit(id.Host, "slot %d exited 0 %s; does the script use it?", id.Local, m.during(was.state))
		}
		m.decide(End{Success: true, Reason: fmt.Sprintf("training is complete: %s exited 0", id)})
	case ev.Success:
		ev.Status = "exited 0 before it joined the ring"
		m.slotFailed(ev, s, was)
	case m.restarts && was.state == InRing && m.broken(): // another member ended
	case ev.Aborted && was.state == InRing && m.broken():
		m.memberDied(ev, was)
		s.retryAt = m.now.Add(collateralDelay)
	default:
		m.memberDied(ev, was)
		m.slotFailed(ev, s, was)
	}
}

// inCurrentRing reports whether a slot's process is still in the newest ring.
func (m *Machine) inCurrentRing(s slot) bool {
	return s.state == InRing && s.generation == m.last.Generation
}

// memberDied handles the unplanned end of a process of the current ring.
func (m *Machine) memberDied(ev SlotExited, was slot) {
	h := m.hosts[ev.Proc.Slot.Host]
	if r := m.Ring(); r != nil && was.state == InRing && was.generation == r.Generation && was.up && h.staying() && !was.leaving {
		m.memberLost()
	}
}

// slotFailed counts a failure of a process. It starts the slot again or, after too many
// failures, gives its host back to Nomad.
func (m *Machine) slotFailed(ev SlotExited, s *slot, was slot) {
	h, local := m.hosts[ev.Proc.Slot.Host], m.number(ev.Proc.Slot).Local
	failures, delay := h.fail(local, m.now)
	m.lastFailure = ev.Status
	if m.restarts && was.state == InRing {
		m.memberFailed(ev.Proc.Slot)
	}
	if failures > m.opt.SlotRestarts {
		how := fmt.Sprintf("failed %d times, the last time %s: %s", failures, m.during(was.state), ev.Status)
		if m.restartsSpent(h, local, how) {
			m.emit(h.id, "%s; the host is given back", h.failReason)
		}
		return
	}
	if mem := m.replaceable(ev, was); mem != nil && h.staying() {
		m.replace(mem, s, ev.Status)
		return
	}
	m.emit(h.id, "slot %d ended %s: %s; restart %d of %d in %s", local, m.during(was.state), ev.Status,
		failures, m.opt.SlotRestarts, delay)
}

// restartsSpent handles a slot that failed too often, and reports whether its host is given
// back. It keeps the host while another process of the slot is in a ring.
func (m *Machine) restartsSpent(h *host, number int, how string) bool {
	if m.restarts && h.besideMember(number) {
		m.emit(h.id, "slot %d %s; its next process starts when the one that trains has ended", number, how)
		return false
	}
	h.giveBack("slot %d %s", number, how)
	return true
}

// replaceable returns the member of a process if another process can replace it, otherwise
// nil. It can be replaced as long as no other member has learned its address: the others
// wait in the rendezvous and do not notice.
func (m *Machine) replaceable(ev SlotExited, was slot) *Member {
	mem := m.Ring().Find(ev.Proc.Slot)
	if m.opt.Framework.AbandonsForming || m.restarts || mem == nil || mem.Proc != ev.Proc || m.intact() == nil || ev.Visible ||
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
	if mem.SyncedSince != m.last.Generation { // otherwise no member has more than a new process
		mem.SyncedSince = 0
	}
	s.syncedSince = mem.SyncedSince
	m.intact().formed = m.now // the new process must import its modules first
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
