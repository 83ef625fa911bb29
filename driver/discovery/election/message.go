// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"cmp"
	"time"
)

// Peer is one agent of the job.
type Peer struct {
	AllocID string
	// Group is the task group, empty if the registration names none.
	Group string
	// Index is the allocation's index in its group, or -1 if unknown. Only the peer
	// itself reports it; the registry does not have it.
	Index int
	// Addr is the agent's service address, "host:port".
	Addr string
	// Registered is the create index of its service registration, 0 for a peer that
	// is not registered. It distinguishes this registration from a later one of the
	// same allocation.
	Registered uint64
}

// Before orders peers by group, index and allocation ID. If there is no leader yet,
// the first peer in this order leads.
func (p Peer) Before(o Peer) bool { return p.compare(o) < 0 }

// compare compares peers by precedence, as cmp.Compare does.
func (p Peer) compare(o Peer) int {
	return cmp.Or(cmp.Compare(p.Group, o.Group), cmp.Compare(p.Index, o.Index), cmp.Compare(p.AllocID, o.AllocID))
}

// View is one reading of the registry.
type View struct {
	Peers []Peer
	// Index grows with the registry's content.
	Index uint64
	// At is when the reading was asked for. The view includes everything recorded
	// before.
	At time.Duration
}

// Kind is the kind of a request.
type Kind string

const (
	// Probe asks a peer which leader it follows, and which rings it knows.
	Probe Kind = "probe"
	// Promise asks a peer to obey no term below the request's.
	Promise Kind = "promise"
	// Lead announces that the sender leads, and which rings were formed.
	Lead Kind = "lead"
	// Accept asks a peer to agree to a ring.
	Accept Kind = "accept"
)

// State is the part of each request and reply in which an agent describes itself.
type State struct {
	From    Peer
	Process uint64
	// Promised is the highest term that the agent obeys, PromisedTo the candidate
	// of that term.
	Promised   uint64
	PromisedTo Process
	// Leader is whom the agent follows, at LeaderTerm. Both are zero if it follows
	// no one.
	Leader     Peer
	LeaderTerm uint64
	// Lost is the highest term whose leader the agent lost.
	Lost uint64
	// Eligible is set if the agent could lead.
	Eligible bool
	Rings    Rings
}

// process returns the sender's process.
func (s State) process() Process { return Process{s.From.AllocID, s.Process} }

// Leads reports whether the sender leads.
func (s State) Leads() bool { return s.Leader.AllocID != "" && s.Leader.AllocID == s.From.AllocID }

// Request is one call.
type Request struct {
	Kind  Kind
	State State
	// Term is the term that a Promise asks for; in other requests, the sender's
	// own.
	Term uint64
	// Ring is the ring that an Accept proposes.
	Ring Ring
}

// Reply answers a Request.
type Reply struct {
	// OK is the answer to a Promise, Lead or Accept.
	OK    bool
	State State
}

// Outcome is how a call ended.
type Outcome int

const (
	// Answered means that there is a Reply.
	Answered Outcome = iota + 1
	// Refused means that nothing listens at the address: the process is dead.
	Refused
	// Unknown means a time-out or any other failure: the peer may be alive.
	Unknown
)

// Leadership states which agent leads from now on: a peer that this agent follows,
// the agent itself, or none.
type Leadership struct {
	// Term is the leader's term; a higher one always replaces a lower one.
	Term uint64
	// Leader is the zero Peer if there is currently no leader.
	Leader Peer
	// Self is true when this agent leads.
	Self bool
}

// Action is one of Call, Follow, Refresh and Formed.
type Action interface{ action() }

// Call sends a request to a peer. Pass its outcome to Machine.Answer.
type Call struct {
	ID      uint64
	To      Peer
	Request Request
}

// Follow reports a change of leadership.
type Follow struct{ Leadership Leadership }

// Refresh asks the caller to read the registry again.
type Refresh struct{}

// Formed ends a Machine.Propose. The ring may start if Err is nil.
type Formed struct {
	Ring Ring
	Err  error

	on    []Ring // rings known when it was formed
	index uint64 // index of the registry at that time
}

func (Call) action()    {}
func (Follow) action()  {}
func (Refresh) action() {}
func (Formed) action()  {}
