// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

// decide ends the job: from now on processes are only brought to an end.
func (m *Machine) decide(e End) {
	if m.outcome != nil {
		return
	}
	m.outcome, m.decidedAt = &e, m.now
	m.tell("", "%s", e.Reason)
}

// finish brings all processes to an end once the outcome is decided. After
// success the others get time to end by themselves: rank 0 may still write its
// last checkpoint.
func (m *Machine) finish() {
	grace := m.outcome.Success && !m.wake(m.decidedAt.Add(m.opt.FinishTimeout))
	running := false
	m.each(func(_ *host, p Proc, s *slot) {
		if s.state == Down {
			return
		}
		running = true
		switch {
		case s.state == Waiting:
			m.stop(p, true, "%s", m.outcome.Reason)
		case s.state != InRing || !grace:
			m.stop(p, false, "%s", m.outcome.Reason)
		}
	})
	if !running {
		m.ended = true
		m.do(*m.outcome)
	}
}
