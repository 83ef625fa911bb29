// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"math/rand/v2"
	"time"
)

// Config holds the settings of a Machine. All times are durations on the machine's own clock,
// which starts anywhere and never goes back.
type Config struct {
	Self Peer
	// Process distinguishes this process from earlier ones of the same allocation. It must
	// be higher than theirs, as a start time is.
	Process uint64
	// Epoch is the wall clock time, in milliseconds, at which the machine's clock was 0.
	Epoch uint64
	// Retry is the pause between rounds.
	Retry time.Duration
	// Fresh is the largest age of the registry reading that a ring is formed by: a ring
	// must not start long after it was allowed.
	Fresh time.Duration
	// Advice is the largest age of a view that MayPropose accepts.
	Advice time.Duration
	// First is the number of peers that an agent asks first in a campaign, 0 for all. If one
	// of them follows a leader or has precedence, the agent does not ask the others. So a
	// job of n agents that have lost their leader does not exchange n times n requests.
	First int
}

type phase int

const (
	waiting     phase = iota // for the registry to name this agent
	paused                   // until m.wake, then campaigning
	campaigning              // asking whom the others follow
	promising                // asking for promises
	following
	leading
)

// Machine is one agent's part in the election. It is not safe for concurrent
// use. Its methods return what to do next.
type Machine struct {
	cfg Config
	rnd *rand.Rand
	now time.Duration
	out []Action

	phase phase
	wake  time.Duration // end of the pause, or next announcement
	tries int           // rounds since there was a leader

	// the registry has listed this agent once
	joined   bool // the registry has listed this agent once
	viewed   bool
	view     map[string]Peer
	index    uint64
	at       time.Duration // when the last view was asked for
	received time.Duration // when its content was received
	changed  uint64        // index of the first view with the current instances

	// The others.
	met     map[string]State // the last state that each peer reported
	refused map[string]bool
	dead    map[Process]bool

	// Promises.
	promised   uint64
	promisedTo Process
	highest    uint64 // term seen anywhere
	why        error  // why the last round did not end with a leader
	leader     Peer
	leaderTerm uint64
	lost       uint64 // term and leader of the last leader lost
	lostID     string
	leaving    bool

	rings Rings

	calls     map[uint64]call
	lastCall  uint64
	round     *round
	checking  bool
	acked     map[string]Rings // what each follower is known to know, in this term
	asked     map[string]bool  // Lead calls in flight
	proposal  *proposal
	nextProbe time.Duration // when MayPropose may ask again
}

// call is a request in flight. Its outcome counts only while its round or proposal is still
// the current one.
type call struct {
	to       Peer
	kind     Kind
	term     uint64
	round    *round
	proposal *proposal
	check    bool
	// known are the peer's processes that were known when the request was sent.
	known []Process
}

// New returns a machine that waits for its first view.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:     cfg,
		rnd:     rand.New(rand.NewPCG(cfg.Process, 0)),
		met:     make(map[string]State),
		refused: make(map[string]bool),
		dead:    make(map[Process]bool),
		calls:   make(map[uint64]call),
	}
}

// Tick does everything that is due by now.
func (m *Machine) Tick(now time.Duration) []Action {
	m.now = now
	switch {
	case m.phase == paused && now >= m.wake:
		m.campaign()
	case m.phase == leading && now >= m.wake:
		m.announce()
		m.yield()
		if m.proposal != nil {
			m.proposal.reading = false // it may have failed
			m.sendProposal()
		}
	}
	m.considerProposal()
	return m.flush()
}

// Next returns the time for the next Tick, and false if there is nothing to wait
// for.
func (m *Machine) Next() (time.Duration, bool) {
	if m.phase != paused && m.phase != leading {
		return 0, false
	}
	return m.wake, true
}

// Leave makes this agent stand in no further election. If it leads, it gives up its
// leadership once another agent can lead.
func (m *Machine) Leave(now time.Duration) []Action {
	m.now = now
	m.leaving = true
	m.yield()
	return m.flush()
}

// LeaderLost notes that the agent has lost its link to the leader of the term.
func (m *Machine) LeaderLost(now time.Duration, term uint64) []Action {
	m.now = now
	if m.phase == following && term == m.leaderTerm {
		m.loseLeader()
	}
	return m.flush()
}

// Leadership returns whom the agent follows.
func (m *Machine) Leadership() Leadership {
	return Leadership{Term: m.leaderTerm, Leader: m.leader, Self: m.phase == leading}
}

// Why returns the reason why the agent could not become leader when it last looked for one.
// It is nil if there is a leader, or if the agent has not looked for one yet.
func (m *Machine) Why() error {
	if m.leader.AllocID != "" {
		return nil
	}
	return m.why
}

// Rings returns the job's rings as far as the agent knows them.
func (m *Machine) Rings() Rings { return m.rings }

func (m *Machine) loseLeader() {
	m.dropLeader()
	m.tries = 0
	m.campaign()
}

// dropLeader leaves this agent without a leader.
func (m *Machine) dropLeader() {
	m.lost, m.lostID = max(m.lost, m.leaderTerm), m.leader.AllocID
	m.setLeader(Peer{}, m.leaderTerm)
}

// setLeader changes the leadership and announces it.
func (m *Machine) setLeader(p Peer, term uint64) {
	if p == m.leader && term == m.leaderTerm {
		return
	}
	m.leader, m.leaderTerm = p, term
	m.out = append(m.out, Follow{Leadership{Term: term, Leader: p, Self: p.AllocID == m.cfg.Self.AllocID}})
}

// state returns what this agent reports of itself.
func (m *Machine) state() State {
	self := m.cfg.Self
	self.Registered = m.view[self.AllocID].Registered
	return State{
		From: self, Process: m.cfg.Process,
		Promised: m.promised, PromisedTo: m.promisedTo,
		Leader: m.leader, LeaderTerm: m.leaderTerm, Lost: m.lost,
		Eligible: m.eligible(), Rings: m.rings,
	}
}

// self returns this agent's process.
func (m *Machine) self() Process { return Process{m.cfg.Self.AllocID, m.cfg.Process} }

// eligible reports whether this agent could lead, as far as it knows.
func (m *Machine) eligible() bool {
	_, ok := m.view[m.cfg.Self.AllocID]
	return (ok || !m.viewed) && !m.leaving
}

func (m *Machine) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.rnd.Int64N(int64(d)+1))
}

func (m *Machine) flush() []Action {
	out := m.out
	m.out = nil
	return out
}
