// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"time"
)

// exited takes in the end of a process.
func (m *Machine) exited(ev SlotExited) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	was, asked := *s, s.stopping
	h := m.hosts[ev.Proc.Slot.Host]
	*s = slot{inc: s.inc, gen: s.gen, leaving: s.leaving, failures: s.failures, failed: s.failed, retry: m.now}
	if m.end != nil {
		return
	}
	switch {
	case asked:
		s.admitted = was.restage
		return
	case ev.Success && (was.state == InRing || m.last == nil):
		m.decide(End{Success: true, Reason: fmt.Sprintf("training is complete: %s exited 0", ev.Proc.Slot)})
		return
	case ev.Success:
		ev.Status = "exited 0 before it joined the ring"
	}
	collateral := ev.Aborted && was.state == InRing && m.broken()
	if collateral {
		s.retry = m.now.Add(time.Second)
		return
	}
	s.fail(m.now)
	s.retry = m.now.Add(backoff(s.failures))
	if s.failures > m.opt.SlotRestarts {
		h.failed = true
		h.why = fmt.Sprintf("slot %d failed %d times, the last time with %s %s", ev.Proc.Slot.Local, s.failures, ev.Status, during(was.state))
		m.tell(h.id, "%s; the host is given back", h.why)
		return
	}
	if mem := m.Ring().Find(ev.Proc.Slot); mem != nil && mem.Proc == ev.Proc && was.state == InRing &&
		was.gen == m.last.Generation && !was.up && !ev.Visible && m.intact() != nil && h.staying() {
		m.replace(mem, s, ev.Status)
		return
	}
	m.tell(h.id, "slot %d ended with %s %s; restart %d of %d in %s", ev.Proc.Slot.Local, ev.Status, during(was.state),
		s.failures, m.opt.SlotRestarts, backoff(s.failures))
}

// replace restarts in place a process that died while its ring forms, before
// any other member learned its address: the others wait in the rendezvous and
// can't tell the difference.
func (m *Machine) replace(mem *Member, s *slot, status string) {
	s.inc++
	s.state, s.gen, s.started, s.admitted = InRing, m.last.Generation, m.now, true
	mem.Proc.Incarnation = s.inc
	s.standIn = mem.Assignment.Rank == 0 && mem.Since != m.last.Generation
	if mem.Since != m.last.Generation { // else nobody holds more than it can have again
		mem.Since = 0
	}
	s.since = mem.Since
	m.intact().formed = m.now // the newcomer has to import first
	m.tell(mem.Proc.Slot.Host, "slot %d ended with %s while ring %d formed; replaced in place", mem.Proc.Slot.Local, status, m.last.Generation)
	m.do(Start{Proc: mem.Proc, Assignment: mem.Assignment, Generation: m.last.Generation, StandIn: s.standIn})
}

func backoff(failures int) time.Duration {
	return min(time.Second<<min(failures-1, 6), time.Minute)
}

func during(s SlotState) string {
	switch s {
	case Starting:
		return "before it reached Horovod's rendezvous"
	case Arrived:
		return "while it waited to join"
	case Waiting:
		return "while it waited for the next ring"
	default:
		return "while training"
	}
}
