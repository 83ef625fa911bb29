// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import "time"

// Receive answers a peer's request.
func (m *Machine) Receive(now time.Duration, req Request) (Reply, []Action) {
	m.now = now
	if m.overtaken(req.State) {
		return Reply{State: m.state()}, nil // a newer process of the sender's allocation is known
	}
	m.learn(req.State)
	m.keepUp()
	from := req.State.process()
	ok := false
	switch req.Kind {
	case Probe:
		ok = true
		m.probed(req.State)
	case Promise:
		ok = m.promise(req)
	case Lead:
		if ok = m.obeys(req.Term, from); ok {
			m.obey(req.State, req.Term)
		}
	case Accept:
		// A candidate that knows a ring that the leader does not must report it
		// first.
		if m.obeys(req.Term, from) {
			m.obey(req.State, req.Term)
			if ok = req.State.Rings.propose(req.Ring).covers(m.rings); ok {
				m.rings = m.rings.propose(req.Ring)
			}
		}
	}
	r := Reply{OK: ok, State: m.state()}
	return r, m.flush()
}

// probed processes what a peer reports of itself.
func (m *Machine) probed(s State) {
	switch {
	case m.phase == leading:
		m.outranked(s)
	case m.phase == following && s.Lost >= m.leaderTerm && s.From.AllocID != m.leader.AllocID:
		m.checkLeader()
	}
}

// promise answers a candidate. It refuses while there is another leader.
func (m *Machine) promise(req Request) bool {
	from := req.State.From.AllocID
	if req.Term <= m.promised {
		return false
	}
	if m.phase == leading {
		return false
	}
	if m.phase == following && m.leader.AllocID != from {
		if req.State.Lost >= m.leaderTerm {
			m.checkLeader()
		}
		return false
	}
	if m.leader.AllocID == m.cfg.Self.AllocID { // this agent was a leader that was raising its term
		m.dropLeader()
	}
	m.grant(req.Term, req.State.process())
	return true
}

// obey follows the sender of a Lead or Accept.
func (m *Machine) obey(s State, term uint64) {
	if m.phase == following && m.promisedTo == s.process() && m.leaderTerm == term {
		return
	}
	m.follow(s, term)
}

// Answer processes the outcome of a call; r is used only if the outcome is
// Answered.
func (m *Machine) Answer(now time.Duration, id uint64, o Outcome, r Reply) []Action {
	m.now = now
	c, ok := m.calls[id]
	if !ok {
		return nil
	}
	delete(m.calls, id)
	to := c.to.AllocID
	if o == Answered && (r.State.From.AllocID != to || m.overtaken(r.State)) {
		o = Unknown // another agent at that address, or a process that has since been replaced
	}
	switch o {
	case Answered:
		m.learn(r.State)
		if c.kind != Probe && r.State.Promised == m.promised && r.State.PromisedTo == m.self() {
			m.rings = m.rings.merge(r.State.Rings)
		}
		m.keepUp()
	case Refused:
		m.markDead(c)
	default:
		delete(m.refused, to)
	}
	if m.round != nil && c.round == m.round {
		a := m.round.peers[to]
		a.outcome, a.ok, a.state = o, r.OK, r.State
		if m.phase == campaigning {
			m.considerCampaign()
		} else {
			m.considerPromise()
		}
		return m.flush()
	}
	switch {
	case c.check:
		m.checked(c, o, r.State)
	case c.kind == Lead:
		m.answeredLead(c, o, r)
	case c.kind == Accept:
		m.answeredAccept(c, o, r)
	}
	m.considerProposal()
	return m.flush()
}

// overtaken reports whether the sender's process is known to be dead.
func (m *Machine) overtaken(s State) bool {
	return m.dead[s.process()] || s.Process < m.met[s.From.AllocID].Process
}

// markDead notes that nothing listened at the peer's address. All of its processes
// that were known when it was asked are dead. A process heard of since may have
// started since.
func (m *Machine) markDead(c call) {
	for _, p := range c.known {
		m.dead[p] = true
	}
	id := c.to.AllocID
	if met, ok := m.met[id]; !ok || m.dead[met.process()] {
		m.refused[id] = true
	}
}
