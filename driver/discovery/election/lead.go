// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

// lead makes this agent the leader of the term that it was promised.
func (m *Machine) lead() {
	m.phase, m.round, m.tries = leading, nil, 0
	m.acked, m.asked = make(map[string]Rings), make(map[string]bool)
	self := m.state().From
	m.setLeader(self, m.promised)
	m.announce()
	m.yield()
}

// announce sends the peers the leader and the rings formed, until each has
// confirmed them.
func (m *Machine) announce() {
	m.wake = m.now + m.cfg.Retry
	for _, p := range m.targets() {
		known, ok := m.acked[p.AllocID]
		if m.asked[p.AllocID] || (ok && known.Chosen.Compare(m.rings.Chosen) >= 0) {
			continue
		}
		m.asked[p.AllocID] = true
		m.send(p, Request{Kind: Lead, Term: m.promised}, call{})
	}
}

// yield gives up the leadership if this agent may no longer form a ring, because it
// leaves or Nomad has dropped it, and another agent could. Training continues
// meanwhile; the others elect a new leader as soon as they see their sessions end.
func (m *Machine) yield() {
	if m.phase != leading || m.eligible() {
		return
	}
	for id := range m.view {
		_, follows := m.acked[id]
		if id != m.cfg.Self.AllocID && follows && m.met[id].Eligible {
			m.stepDown()
			return
		}
	}
}

// stepDown ends this agent's leadership.
func (m *Machine) stepDown() {
	m.endProposal(ErrDeposed)
	m.dropLeader()
	m.phase, m.round = paused, nil
	m.wake = m.now + m.jitter(m.cfg.Retry/8)
}

// outranked handles a peer that promised a term above this leader's. If the peer
// already follows a leader of a higher term, this agent steps down. Otherwise it
// stays the leader and asks for a term that the peer can obey.
func (m *Machine) outranked(s State) {
	above := s.Promised > m.promised || (s.Promised == m.promised && s.PromisedTo != m.promisedTo && s.Promised > 0)
	if m.phase != leading || !above {
		return
	}
	if s.Leader.AllocID != "" && s.LeaderTerm > m.promised {
		m.stepDown()
		return
	}
	m.endProposal(ErrDeposed)
	m.promiseAll()
}

// keepUp raises this leader's term if it has learnt of a ring whose term is as
// high, formed by another leader whose promises are no longer known.
func (m *Machine) keepUp() {
	if m.phase != leading {
		return
	}
	for _, r := range m.rings.without(Ring{}) {
		if r.Term > m.promised || (r.Term == m.promised && r.Leader != m.self()) {
			m.endProposal(ErrDeposed)
			m.promiseAll()
			return
		}
	}
}

// answeredLead takes a peer's answer to Lead.
func (m *Machine) answeredLead(c call, o Outcome, r Reply) {
	if m.phase != leading || c.term != m.promised {
		return
	}
	delete(m.asked, c.to.AllocID)
	if o != Answered {
		return // the next announcement asks again
	}
	if r.OK {
		m.acked[c.to.AllocID] = r.State.Rings
		m.yield()
		m.sendProposal()
		return
	}
	m.outranked(r.State)
}
