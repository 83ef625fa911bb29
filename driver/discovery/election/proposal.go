// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

var (
	// ErrNotLeader ends a proposal of an agent that does not lead.
	ErrNotLeader = errors.New("this agent does not lead")
	// ErrDeposed ends a proposal if another agent leads, or a new term begins,
	// before the ring is formed.
	ErrDeposed = errors.New("the leadership changed")
	// ErrSuperseded ends a proposal when another one begins.
	ErrSuperseded = errors.New("another ring was asked for")
	// ErrGeneration means that the ring's number is already used.
	ErrGeneration = errors.New("generation already used")
	// ErrHostGone ends a proposal if a host of the new ring has died.
	ErrHostGone = errors.New("a host of the new ring is gone")
)

// proposal is a ring that waits for a quorum.
type proposal struct {
	generation uint64
	hosts      []string
	registered uint64 // this agent's registration when it began
	ring       Ring   // zero until every host is known
	got        answers
	asked      map[string]bool
	settled    time.Duration // when got last grew
	reading    bool          // a reading of the registry has been asked for since then
}

// errUnconfirmed means that all peers agree, but the registry has yet to confirm
// that this agent is still registered, and which others are.
var errUnconfirmed = errors.New("the registry has not confirmed it yet")

func newProposal(generation uint64, hosts []string) *proposal {
	return &proposal{
		generation: generation, hosts: hosts, asked: make(map[string]bool),
		got: answers{agreed: make(map[string]uint64), refused: make(map[string]bool)},
	}
}

// Propose asks the peers to agree to a ring; a Formed action reports how it ended.
// It waits as long as a quorum is still possible.
func (m *Machine) Propose(now time.Duration, generation uint64, hosts []string) []Action {
	m.now = now
	m.endProposal(ErrSuperseded)
	m.proposal = newProposal(generation, hosts)
	switch {
	case m.phase != leading:
		m.endProposal(ErrNotLeader)
	case len(hosts) == 0:
		m.endProposal(errors.New("a ring needs a host"))
	default:
		if used, _ := m.rings.highest(); generation <= used {
			m.endProposal(fmt.Errorf("%w: %d, the last one was %d", ErrGeneration, generation, used))
			break
		}
		m.proposal.registered = m.view[m.cfg.Self.AllocID].Registered
		m.sendProposal()
		m.considerProposal()
	}
	return m.flush()
}

// Withdraw gives up the proposal that waits for a quorum, if any.
func (m *Machine) Withdraw(now time.Duration) []Action {
	m.now = now
	m.endProposal(errors.New("given up"))
	return m.flush()
}

// Pending returns an error that states what the current proposal still waits for.
// It is nil if there is no proposal.
func (m *Machine) Pending(now time.Duration) error {
	if m.proposal == nil {
		return nil
	}
	m.now = now
	_, err := m.lacking()
	return err
}

// MayPropose returns nil if the given allocations, and no others, could form a
// ring. Otherwise the error states the reason. In that case MayPropose also probes
// the other agents, so a later call may give another answer.
func (m *Machine) MayPropose(now time.Duration, connected []string) ([]Action, error) {
	if m.phase != leading {
		return nil, ErrNotLeader
	}
	m.now = now
	agreed := map[string]uint64{m.cfg.Self.AllocID: m.cfg.Process}
	for _, id := range connected {
		if c, ok := m.met[id]; ok {
			agreed[id] = c.Process
		}
	}
	_, err := m.quorum(m.rings.without(Ring{}), answers{agreed, m.refused})
	if age := m.now - m.at; age > m.cfg.Advice {
		err = fmt.Errorf("the registry was last confirmed %s ago", age.Round(100*time.Millisecond))
	}
	if err != nil && now >= m.nextProbe {
		m.nextProbe = now + m.cfg.Retry
		for _, p := range m.targets() {
			if _, ok := agreed[p.AllocID]; !ok {
				m.send(p, Request{Kind: Probe, Term: m.promised}, call{})
			}
		}
	}
	return m.flush(), err
}

func (m *Machine) endProposal(err error) {
	if f := m.proposal; f != nil {
		m.proposal = nil
		m.out = append(m.out, Formed{Ring: f.ring, Err: err})
	}
}

// nameRing fixes the new ring once each of its hosts has been heard of.
func (m *Machine) nameRing() bool {
	f := m.proposal
	if !f.ring.IsZero() {
		return true
	}
	ring := Ring{Registry: max(m.changed, m.rings.Last().Registry), Term: m.promised, Leader: m.self(), Generation: f.generation}
	for _, id := range f.hosts {
		h := Host{AllocID: id, Process: m.met[id].Process, Registered: m.view[id].Registered}
		if id == m.cfg.Self.AllocID {
			h.Process = m.cfg.Process
		} else if _, ok := m.met[id]; !ok {
			return false
		}
		ring.Hosts = append(ring.Hosts, h)
	}
	f.ring = ring
	f.got.agreed[m.cfg.Self.AllocID] = m.cfg.Process
	f.settled, f.reading = m.now, false
	m.rings = m.rings.propose(ring)
	return true
}

// sendProposal asks the peers that have not agreed and have no request in flight.
func (m *Machine) sendProposal() {
	f := m.proposal
	if f == nil || !m.nameRing() {
		return
	}
	for _, p := range m.targets() {
		if _, ok := f.got.agreed[p.AllocID]; ok || f.asked[p.AllocID] {
			continue
		}
		f.asked[p.AllocID] = true
		m.send(p, Request{Kind: Accept, Term: m.promised, Ring: f.ring}, call{proposal: f})
	}
}

// answeredAccept takes a peer's answer to Accept.
func (m *Machine) answeredAccept(c call, o Outcome, r Reply) {
	f := m.proposal
	if f == nil || f != c.proposal {
		return
	}
	delete(f.asked, c.to.AllocID)
	if (o == Refused && !f.got.refused[c.to.AllocID]) || (o == Answered && r.OK) {
		f.settled, f.reading = m.now, false
	}
	f.got.refused[c.to.AllocID] = o == Refused
	if o != Answered {
		return // asked again at the next tick
	}
	if r.OK {
		f.got.agreed[c.to.AllocID] = r.State.Process
		return
	}
	if m.outranked(r.State); m.proposal != nil {
		m.sendProposal() // it knew a ring that this agent has learnt of only now
	}
}

// considerProposal forms the ring if nothing is missing.
func (m *Machine) considerProposal() {
	f := m.proposal
	if f == nil || f.ring.IsZero() {
		return
	}
	for _, h := range f.ring.Hosts {
		if p, ok := f.got.agreed[h.AllocID]; (ok && p != h.Process) || m.dead[h.process()] || (!ok && f.got.refused[h.AllocID]) {
			m.endProposal(fmt.Errorf("%w: %s", ErrHostGone, short(h.AllocID)))
			return
		}
	}
	for _, k := range m.rings.without(f.ring) {
		if k.Generation >= f.generation || k.Compare(f.ring) > 0 { // learnt of while asking
			m.endProposal(fmt.Errorf("%w: %d, and there is ring %d of term %d", ErrGeneration, f.generation, k.Generation, k.Term))
			return
		}
	}
	if p, ok := m.view[m.cfg.Self.AllocID]; ok && p.Registered != f.registered {
		m.endProposal(ErrDeposed) // Nomad dropped it meanwhile, and the others may not have waited
		return
	}
	majority, why := m.lacking()
	switch {
	case errors.Is(why, errUnconfirmed) && !f.reading:
		f.reading = true
		m.out = append(m.out, Refresh{})
	case why != nil:
	case (!majority && m.changed > f.ring.Registry) || m.outdated(f.ring):
		// Other agents were dropped meanwhile, and the new ring must be seen to
		// come after theirs; or hosts were registered, and should get their votes.
		m.proposal = newProposal(f.generation, f.hosts)
		m.proposal.registered = f.registered
		m.sendProposal()
		m.considerProposal()
	default:
		m.proposal = nil
		m.out = append(m.out, Formed{Ring: f.ring, on: m.rings.without(f.ring), index: m.index})
		m.rings = m.rings.choose(f.ring)
		m.announce()
	}
}

// outdated reports whether hosts of the ring are registered differently by now.
func (m *Machine) outdated(r Ring) bool {
	return slices.ContainsFunc(r.Hosts, func(h Host) bool {
		p, ok := m.view[h.AllocID]
		return ok && p.Registered != h.Registered
	})
}

// lacking returns what the current proposal still needs.
func (m *Machine) lacking() (majority bool, err error) {
	f := m.proposal
	for _, id := range f.hosts {
		if _, ok := f.got.agreed[id]; !ok {
			return false, fmt.Errorf("host %s has not agreed yet", short(id))
		}
	}
	majority, err = m.quorum(m.rings.without(f.ring), f.got)
	if err == nil && (m.at < f.settled || m.now-m.at > m.cfg.Fresh) {
		err = errUnconfirmed
	}
	return majority, err
}
