// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// census is what became of the members of a ring.
type census struct {
	in, out, lost int
	connected     bool    // all that are in, but for the stand-in, finished the rendezvous
	saved         bool    // one that is out holds the state
	standIn       *Member // of rank 0, nil when there is none
}

func (m *Machine) census() census {
	c := census{connected: true}
	for i, mem := range m.last.Members {
		s := m.proc(mem.Proc)
		switch {
		case s == nil || s.gen != m.last.Generation || s.state == Starting || s.state == Arrived:
			c.lost++
		case s.state == Waiting:
			c.out++
			c.saved = c.saved || s.since > 0
		case s.standIn:
			c.in++
			c.standIn = &m.last.Members[i]
		default:
			c.in++
			c.connected = c.connected && s.up
		}
	}
	return c
}

// watch looks after the present ring: is it forming, training, dissolving?
func (m *Machine) watch() {
	if m.Ring() == nil {
		return
	}
	if m.unheard {
		m.unheard = false
		m.do(Form{Ring: m.last.clone()})
	}
	c := m.census()
	d, dissolves := m.phase.(*dissolving)
	if !dissolves && c.lost == 0 && c.out == 0 {
		m.watchForming(c)
		return
	}
	if !dissolves {
		d = m.startDissolving()
	}
	m.watchDissolving(d, c)
}

func (m *Machine) watchForming(c census) {
	if !c.connected {
		if t, ok := m.phase.(*training); ok {
			m.resumeForming(t)
		}
		if m.wake(m.intact().formed.Add(m.opt.FormTimeout)) {
			m.stopMembers(func(s *slot) bool { return !s.up }, "it did not finish the rendezvous of ring %d in %s", m.last.Generation, m.opt.FormTimeout)
		}
		return
	}
	if c.standIn != nil {
		m.stop(c.standIn.Proc, true, "it stood in for rank 0 of ring %d", m.last.Generation)
	} else if f, ok := m.phase.(*forming); ok {
		m.startTraining(f)
	}
}

func (m *Machine) watchDissolving(d *dissolving, c census) {
	if !d.broken && (c.lost > 0 || !d.noticed) {
		d.broken = true
		m.do(Break{Generation: m.last.Generation})
	}
	if c.in == 0 {
		if !d.broken {
			// Not before all have left, alive: the first may have left because
			// rank 0 died while it handed out the state, of which the leader
			// hears later.
			m.synced()
		}
		m.dissolved(d)
		return
	}
	if d.broken && m.wake(d.since.Add(2*time.Second)) {
		// A process that is still connecting can't recover; see HTTPStore and
		// GlooContext::Initialize in Horovod.
		m.stopMembers(func(s *slot) bool { return !s.up }, "ring %d broke while it formed", m.last.Generation)
	}
	grace := m.opt.BarrierTimeout
	if d.stalled && c.saved {
		grace = stallGrace
	}
	if m.wake(d.since.Add(grace)) {
		m.stopMembers(func(*slot) bool { return true }, "it did not leave ring %d in %s", m.last.Generation, grace)
	}
}

// syncGrace is the age at which a ring counts as synced without other evidence.
// Where the script reports its steps, this ring has not made one yet: a large
// state may still be on its way. But a script may also report once in an epoch.
func (m *Machine) syncGrace() time.Duration {
	if m.reports {
		return 10 * m.opt.SyncGrace
	}
	return m.opt.SyncGrace
}

// stopMembers kills the members still in the ring that match.
func (m *Machine) stopMembers(match func(*slot) bool, format string, args ...any) {
	for _, mem := range m.last.Members {
		if s := m.proc(mem.Proc); s != nil && s.state == InRing && match(s) {
			m.stop(mem.Proc, true, format, args...)
		}
	}
}
