// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"time"
)

// connectGrace is how long a process may still connect to a ring that broke, where
// it can't give it up; see abandonGrace.
const connectGrace = 2 * time.Second

// census counts the members of the present ring: in it, out of it and waiting for
// the next, or lost.
type census struct {
	in, out, lost int
	connected     bool    // all that are in finished the rendezvous, but for the surrogate
	saved         bool    // one that is out holds the state
	kept          bool    // and did so when the ring formed: newcomers may yet receive it while the ring trains
	surrogate     *Member // of rank 0, or nil
}

func (m *Machine) census() census {
	c := census{connected: true}
	first := !slices.ContainsFunc(m.last.Members, func(mem Member) bool { return mem.SyncedSince > 0 })
	for i, mem := range m.last.Members {
		s := m.proc(mem.Proc)
		switch {
		case s == nil || s.generation != m.last.Generation || s.state == Starting || s.state == Arrived:
			c.lost++
		case s.state == Waiting:
			c.out++
			c.saved = c.saved || s.syncedSince > 0
			c.kept = c.kept || s.syncedSince > 0 && (first || mem.SyncedSince > 0)
		case s.surrogate:
			c.in++
			c.surrogate = &m.last.Members[i]
		default:
			c.in++
			c.connected = c.connected && s.up
		}
	}
	if m.replicated() {
		c.saved = m.partsHeld(func(s *slot) bool { return s.state == Waiting })
		c.kept = c.kept && c.saved
	}
	return c
}

// observeRing moves the present ring to the phase that its members show.
func (m *Machine) observeRing() {
	if m.Ring() == nil {
		return
	}
	if m.resend {
		m.resend = false
		m.do(Form{Ring: m.last.clone()})
	}
	c := m.census()
	d, dissolves := m.phase.(*dissolving)
	if !dissolves {
		if c.out == 0 && c.lost == 0 {
			m.observeIntact(c)
			return
		}
		d = m.startDissolving()
	}
	m.observeDissolving(d, c)
}

func (m *Machine) observeIntact(c census) {
	if !c.connected {
		if t, ok := m.phase.(*training); ok {
			m.resumeForming(t)
		}
		timeout := m.opt.FormTimeout
		if m.restarts {
			timeout = m.opt.StageTimeout // hosts without room for two processes start them now
		}
		if m.wake(m.intact().formed.Add(timeout)) {
			m.stopMembers(func(s *slot) bool { return !s.up }, "it did not finish the rendezvous of ring %d in %s", m.last.Generation, timeout)
		}
		return
	}
	if c.surrogate != nil {
		m.stop(c.surrogate.Proc, true, "it was the surrogate of rank 0 of ring %d", m.last.Generation)
	} else if f, ok := m.phase.(*forming); ok {
		m.startTraining(f)
	}
}

func (m *Machine) observeDissolving(d *dissolving, c census) {
	lost := c.lost > 0 && !m.restarts // else all that have left are lost
	if !d.broken && (lost || !d.noticed) {
		m.breakRing(d)
	}
	if c.in == 0 {
		if !d.broken {
			// Not before all have left, alive: the first may have left because
			// rank 0 died during its broadcast, which the leader learns later.
			m.markSynced()
		}
		m.dissolved()
		return
	}
	if m.restarts {
		m.dismiss(d)
		return
	}
	connecting := connectGrace
	if m.opt.Framework.AbandonsForming {
		connecting = abandonGrace
	}
	if d.broken && m.wake(d.since.Add(connecting)) {
		// Horovod's processes can't recover while they connect; see HTTPStore and
		// GlooContext::Initialize there.
		m.stopMembers(func(s *slot) bool { return !s.up }, "ring %d broke while it formed", m.last.Generation)
	}
	if d.broken && c.kept {
		m.restartIdle()
	}
	grace := m.opt.BarrierTimeout
	if d.stalled && c.kept {
		grace = stallGrace
	}
	if m.wake(d.since.Add(grace)) {
		m.stopMembers(func(*slot) bool { return true }, "it did not leave ring %d in %s", m.last.Generation, grace)
	}
}

// breakRing cuts the connections of a ring that lost a member.
func (m *Machine) breakRing(d *dissolving) {
	d.broken = true
	m.do(Break{Generation: m.last.Generation})
}

// restartIdle kills members of a broken ring that do nothing any more, so that their
// slots start others. Gloo may leave a process waiting for hours although its
// connections are cut (Pair::signalException, gloo/transport/tcp/pair.cc): an operation
// of which a part is sent or received does not learn of it.
func (m *Machine) restartIdle() {
	for _, mem := range m.last.Members {
		if s := m.proc(mem.Proc); s != nil && s.state == InRing && s.idle && !s.stopping {
			m.emit(mem.Proc.Slot.Host, "slot %d hangs in ring %d, which broke: it has used hardly any CPU time for %s, and is restarted",
				m.number(mem.Proc.Slot).Local, m.last.Generation, IdleTime)
			m.stop(mem.Proc, true, "it hangs in ring %d, which broke", m.last.Generation)
		}
	}
}

// stopMembers kills the matching members that are still in the ring.
func (m *Machine) stopMembers(match func(*slot) bool, format string, args ...any) {
	m.endMembers(match, true, format, args...)
}

// endMembers stops the matching members that are still in the ring.
func (m *Machine) endMembers(match func(*slot) bool, kill bool, format string, args ...any) {
	for _, mem := range m.last.Members {
		if s := m.proc(mem.Proc); s != nil && s.state == InRing && match(s) {
			m.stop(mem.Proc, kill, format, args...)
		}
	}
}
