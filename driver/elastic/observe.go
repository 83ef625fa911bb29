// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

// connectGrace is how long a process may still connect to a broken ring if processes can't
// give a ring up; see abandonGrace.
const connectGrace = 2 * time.Second

// census counts the members of the current ring: those in it, those that have left it and
// wait for the next one, and those lost.
type census struct {
	in, out, lost int
	gaveUp        bool    // one has left that was never connected: not because of a notice, and perhaps without the state
	connected     bool    // all that are in it finished the rendezvous, except for the surrogate
	saved         bool    // one that has left and does not retire has the state
	kept          bool    // and already had it when the ring formed: newcomers may still be receiving it while the ring trains
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
			c.gaveUp = c.gaveUp || !s.up
			holds := s.syncedSince > 0 && !s.stopping
			c.saved = c.saved || holds
			c.kept = c.kept || holds && (first || mem.SyncedSince > 0)
		case s.surrogate:
			c.in++
			c.surrogate = &m.last.Members[i]
		default:
			c.in++
			c.connected = c.connected && s.up
		}
	}
	if m.replicated() {
		c.saved = m.partsHeld(func(s *slot) bool { return s.state == Waiting && !s.stopping })
		c.kept = c.kept && c.saved
	}
	return c
}

// observeRing moves the current ring to the phase that its members' states imply.
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
			timeout = m.opt.StageTimeout // hosts without memory for two processes start them only now
		}
		if m.wake(m.intact().formed.Add(timeout)) {
			m.killMembers(func(s *slot) bool { return !s.up }, "it did not finish the rendezvous of ring %d in %s", m.last.Generation, timeout)
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
	lost := c.lost > 0 && !m.restarts // if processes can't change their ring, every member that left counts as lost
	if !d.broken && (lost || c.gaveUp || !d.noticed) {
		m.breakRing(d)
	}
	if c.in == 0 {
		if !d.broken {
			// Only if all have left alive: the first may have left because rank 0 died
			// during its broadcast, which the leader learns later.
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
		m.killMembers(func(s *slot) bool { return !s.up }, "ring %d broke while it formed", m.last.Generation)
	}
	if d.broken && c.kept && !d.told {
		m.restartIdle()
	}
	if d.stalled != nil && c.kept {
		m.killCauses(d.stalled)
	}
	if c.kept && d.kept.IsZero() {
		d.kept = m.now
	}
	since, limit, after := d.since, m.opt.BarrierTimeout, "others left it, or it broke"
	switch {
	case d.told:
		limit, after = m.opt.CommitTimeout, "it was told of a change (commit_timeout)"
	case d.stalled != nil && c.kept:
		if d.stalled.Doubtful {
			since = d.kept // until then all may have been working
		}
		limit, after = stallGrace, "the ring made no step for too long (stall_timeout)"
	case d.stalled != nil && d.stalled.Doubtful && c.out == 0 && c.lost == 0:
		limit, after = m.opt.CommitTimeout, "the ring made no step for too long (stall_timeout, commit_timeout)"
	}
	if m.wake(since.Add(limit)) {
		m.killMembers(func(*slot) bool { return true }, "it has not left ring %d in %s after %s", m.last.Generation, limit, after)
	}
}

// breakRing cuts the connections of a ring that lost a member.
func (m *Machine) breakRing(d *dissolving) {
	d.broken = true
	m.do(Break{Generation: m.last.Generation})
}

// restartIdle kills idle members of a broken ring, so that their slots start other
// processes. Gloo may leave a process waiting for hours although its connections are cut
// (Pair::signalException, gloo/transport/tcp/pair.cc), because an operation that is partly
// sent or received does not learn of that. The caller excludes members that were notified
// of a change in a ring without failures: an idle one may be uploading a checkpoint.
func (m *Machine) restartIdle() {
	m.killMembers(func(s *slot) bool { return s.idle }, "it hangs in ring %d, which broke: it has used hardly any CPU time for %s",
		m.last.Generation, IdleTime)
}

// killCauses kills the members that are known to be the cause of a stall. The caller makes
// sure that others keep the state.
func (m *Machine) killCauses(ev *Stalled) {
	m.killMembers(func(s *slot) bool {
		return slices.ContainsFunc(ev.Causes, func(p Proc) bool { return m.proc(p) == s })
	}, "it is %s, and ring %d made no step (stall_timeout)", ev.Why, m.last.Generation)
}

// killMembers kills the matching members that are still in the ring, and reports each
// with the reason.
func (m *Machine) killMembers(match func(*slot) bool, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	m.members(match, func(mem Member) {
		id := m.number(mem.Proc.Slot)
		m.emit(id.Host, "rank %d (host %s, slot %d) is killed: %s", mem.Assignment.Rank, id.Host, id.Local, why)
		m.stop(mem.Proc, true, "%s", why)
	})
}

// members calls f for the matching members that are still in the ring and not being
// stopped.
func (m *Machine) members(match func(*slot) bool, f func(Member)) {
	for _, mem := range m.last.Members {
		if s := m.proc(mem.Proc); s != nil && s.state == InRing && !s.stopping && match(s) {
			f(mem)
		}
	}
}
