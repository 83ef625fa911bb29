// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// watch looks after the present ring: is it forming, training, dissolving?
func (m *Machine) watch() {
	r := m.ring
	var in, out, dead int
	allUp, saved := true, false
	var standIn *Member
	for i, mem := range r.Members {
		s := m.proc(mem.Proc)
		switch {
		case s == nil || s.gen != r.Generation || s.state == Starting || s.state == Arrived:
			dead++
		case s.state == Waiting:
			out++
			saved = saved || s.since > 0
		default:
			in++
			if s.standIn {
				standIn = &r.Members[i]
				continue
			}
			allUp = allUp && s.up
		}
	}
	if dead == 0 && out == 0 && m.dissolving.IsZero() {
		switch {
		case allUp && standIn != nil:
			m.stop(standIn.Proc, true, "it stood in for rank 0 of ring %d", r.Generation)
		case allUp && m.up.IsZero():
			m.up = m.now
		}
		if !allUp && m.wake(m.formed.Add(m.opt.FormTimeout)) {
			m.stopMembers(func(s *slot) bool { return !s.up }, "it did not finish the rendezvous of ring %d in %s", r.Generation, m.opt.FormTimeout)
		}
		return
	}
	if m.dissolving.IsZero() {
		m.dissolving = m.now
		if !m.up.IsZero() && m.now.Sub(m.up) >= m.grace() {
			m.synced()
		}
	}
	if !m.broken && (dead > 0 || m.notified.IsZero()) {
		m.broken = true
		m.do(Break{Generation: r.Generation})
	}
	if in == 0 {
		if !m.broken {
			// Not before all have left, alive: the first may have left because
			// rank 0 died while it handed out the state, of which the leader
			// hears later.
			m.synced()
		}
		m.ring = nil
		m.short = time.Time{}
		return
	}
	if m.broken && m.wake(m.dissolving.Add(2*time.Second)) {
		// A process that is still connecting can't recover; see HTTPStore and
		// GlooContext::Initialize in Horovod.
		m.stopMembers(func(s *slot) bool { return !s.up }, "ring %d broke while it formed", r.Generation)
	}
	patience := m.opt.BarrierTimeout
	if m.patience > 0 && saved {
		patience = m.patience
	}
	if m.wake(m.dissolving.Add(patience)) {
		m.stopMembers(func(*slot) bool { return true }, "it did not leave ring %d in %s", r.Generation, patience)
	}
}

// grace is the age at which a ring counts as synced without other evidence.
// Where the script reports its steps, this ring has not made one yet: a large
// state may still be on its way. But a script may also report once in an epoch.
func (m *Machine) grace() time.Duration {
	if m.reports {
		return 10 * m.opt.SyncGrace
	}
	return m.opt.SyncGrace
}

// stopMembers kills the members still in the ring that match.
func (m *Machine) stopMembers(match func(*slot) bool, format string, args ...any) {
	for _, mem := range m.ring.Members {
		if s := m.proc(mem.Proc); s != nil && s.state == InRing && match(s) {
			m.stop(mem.Proc, true, format, args...)
		}
	}
}
