// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

var errNotEligible = errors.New("this allocation is leaving, or the registry does not name it")

// maxDeferrals is the number of rounds an agent waits for a peer with precedence.
const maxDeferrals = 3

// deferrals returns the number of rounds that this agent waits for a peer with precedence. It
// waits longer in a job of many agents, because all of them ask all others afterwards.
func (m *Machine) deferrals() int {
	if m.cfg.First > 0 && len(m.view) > m.cfg.First {
		return 3 * maxDeferrals
	}
	return maxDeferrals
}

// round is one round of requests, Probe or Promise, to all peers.
type round struct {
	term  uint64
	peers map[string]*answer
	rest  []Peer // to ask if the answers of the others do not suffice
}

// answer is the outcome of one request; outcome 0 means that it is still in flight.
type answer struct {
	peer    Peer
	outcome Outcome
	ok      bool
	state   State
}

func (r *round) pending(but func(Peer) bool) bool {
	for _, a := range r.peers {
		if a.outcome == 0 && !but(a.peer) {
			return true
		}
	}
	return false
}

func noOne(Peer) bool { return false }

func (m *Machine) ask(p Peer, kind Kind) {
	m.round.peers[p.AllocID] = &answer{peer: p}
	m.send(p, Request{Kind: kind, Term: m.round.term}, call{round: m.round})
}

// begin starts a round of requests.
func (m *Machine) begin(phase phase, kind Kind, peers []Peer) {
	m.phase, m.round = phase, &round{term: m.promised, peers: make(map[string]*answer)}
	for _, p := range peers {
		m.ask(p, kind)
	}
}

// campaign starts a round of Probes.
func (m *Machine) campaign() {
	peers := m.targets()
	first := m.askFirst(peers)
	m.begin(campaigning, Probe, peers[:first])
	m.round.rest = peers[first:]
	m.considerCampaign()
}

// askFirst sorts peers by precedence, and returns how many of them a campaign asks first.
// That is all of them if this agent is among the first itself, or has waited long enough.
func (m *Machine) askFirst(peers []Peer) int {
	if m.cfg.First == 0 || len(peers) <= m.cfg.First || m.tries > m.deferrals() {
		return len(peers)
	}
	slices.SortFunc(peers, Peer.compare)
	if m.cfg.Self.Before(peers[m.cfg.First-1]) {
		return len(peers)
	}
	return m.cfg.First
}

// pause ends the round without a leader. The first few pauses are short.
func (m *Machine) pause() {
	m.phase, m.round = paused, nil
	m.wake = m.now + m.jitter(m.cfg.Retry>>max(0, 3-m.tries))
	m.tries++
}

// considerCampaign looks at the answers so far, and follows a leader, stands for election,
// waits for more answers, or gives up.
func (m *Machine) considerCampaign() {
	r := m.round
	for _, id := range sortedKeys(r.peers) {
		a := r.peers[id]
		if a.outcome != Answered {
			continue
		}
		s := a.state
		if s.Leads() && m.obeys(s.LeaderTerm, s.process()) {
			m.follow(s, s.LeaderTerm)
			return
		}
		if l := s.Leader.AllocID; l != "" && l != m.cfg.Self.AllocID && r.peers[l] == nil {
			m.ask(s.Leader, Probe)
		}
	}
	lower := func(p Peer) bool { // such peers cannot change what this agent does
		return m.lost > 0 && p.AllocID == m.lostID ||
			m.met[p.AllocID].Process != 0 && m.cfg.Self.Before(p) && !m.namedLeader(p)
	}
	if r.pending(lower) {
		return
	}
	m.why = m.mayLead()
	if m.why == nil && len(r.rest) > 0 {
		rest := r.rest
		r.rest = nil
		for _, p := range rest {
			if r.peers[p.AllocID] == nil {
				m.ask(p, Probe)
			}
		}
		m.considerCampaign()
		return
	}
	if m.why == nil {
		_, m.why = m.quorum(m.rings.without(Ring{}), m.answers(m.willing))
	}
	if m.why == nil {
		m.promiseAll()
		return
	}
	if !r.pending(noOne) {
		m.pause()
	}
}

// namedLeader reports whether one of the answers names the peer as leader.
func (m *Machine) namedLeader(p Peer) bool {
	for _, a := range m.round.peers {
		if a.outcome == Answered && a.state.Leader.AllocID == p.AllocID {
			return true
		}
	}
	return false
}

// mayLead returns why this agent should not stand for election: it is not eligible, or an
// eligible peer with precedence has answered and has not had its chance yet.
func (m *Machine) mayLead() error {
	if !m.eligible() {
		return errNotEligible
	}
	if m.tries > m.deferrals() {
		return nil
	}
	for _, id := range sortedKeys(m.round.peers) {
		a := m.round.peers[id]
		if a.outcome == Answered && a.state.Eligible && a.state.From.Before(m.cfg.Self) {
			return fmt.Errorf("allocation %s goes before this one", short(id))
		}
	}
	return nil
}

// answers sorts a round's outcomes into agreements and refusals.
func (m *Machine) answers(yes func(*answer) bool) answers {
	out := answers{agreed: map[string]uint64{m.cfg.Self.AllocID: m.cfg.Process}, refused: make(map[string]bool)}
	for id, a := range m.round.peers {
		switch {
		case a.outcome == Refused:
			out.refused[id] = true
		case a.outcome == Answered && yes(a):
			out.agreed[id] = a.state.Process
		}
	}
	return out
}

// willing reports whether the peer would promise, judging by its answer to Probe.
func (m *Machine) willing(a *answer) bool {
	l := a.state.Leader.AllocID
	return l == "" || l == m.cfg.Self.AllocID
}

// promiseAll starts a round of promises for a new term. It is above all terms seen and,
// because terms follow the wall clock, above those that only dead agents remember. A leader
// that raises its term in this way stays the leader meanwhile.
func (m *Machine) promiseAll() {
	_, used := m.rings.highest()
	m.highest = max(m.highest+1, used+1, m.cfg.Epoch+uint64(m.now/time.Millisecond)) //nolint:gosec // time since the start
	m.promised, m.promisedTo = m.highest, m.self()
	m.begin(promising, Promise, m.targets())
	m.considerPromise()
}

// considerPromise takes the lead as soon as there are enough promises.
func (m *Machine) considerPromise() {
	promised := m.answers(func(a *answer) bool { return a.ok })
	if _, m.why = m.quorum(m.rings.without(Ring{}), promised); m.why == nil {
		m.lead()
		return
	}
	if m.round.pending(noOne) {
		return
	}
	if m.leader.AllocID != "" {
		m.dropLeader() // it could not raise its term
	}
	m.pause()
}

// obeys reports whether this agent may follow process p at the term.
func (m *Machine) obeys(term uint64, p Process) bool {
	return term > m.promised || (term == m.promised && m.promisedTo == p)
}

// follow makes the sender of s the leader. The caller has checked obeys.
func (m *Machine) follow(s State, term uint64) {
	m.endProposal(ErrDeposed)
	m.promised, m.promisedTo = term, s.process()
	m.highest = max(m.highest, term)
	m.phase, m.round, m.tries, m.checking = following, nil, 0, false
	m.setLeader(s.From, term)
}

// grant promises the term to a candidate and leaves it time to lead.
func (m *Machine) grant(term uint64, p Process) {
	m.promised, m.promisedTo = term, p
	m.highest = max(m.highest, term)
	if m.phase != following && m.phase != waiting {
		m.phase, m.round = paused, nil
		m.wake = m.now + m.cfg.Retry + m.jitter(m.cfg.Retry)
	}
}

// checkLeader asks the leader whether it still leads, once at a time.
func (m *Machine) checkLeader() {
	if m.phase == following && !m.checking {
		m.checking = true
		m.send(m.leader, Request{Kind: Probe, Term: m.leaderTerm}, call{check: true})
	}
}

// checked takes the leader's answer to checkLeader.
func (m *Machine) checked(c call, o Outcome, s State) {
	m.checking = false
	if m.phase != following || c.term != m.leaderTerm || c.to.AllocID != m.leader.AllocID {
		return
	}
	if o != Answered || !s.Leads() {
		m.loseLeader()
	}
}
