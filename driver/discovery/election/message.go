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
	// Group is the task group, empty where the registration names none.
	Group string
	// Index is the allocation's index in its group, -1 when not known: the registry
	// does not have it, the peer itself reports.
	Index int
	// Addr is the agent's service address, "host:port".
	Addr string
	// Registered is the create index of its service registration, 0 for a peer
	// that is not registered. It distinguishes a registration from a later one of the
	// same allocation.
	Registered uint64
}

// Before orders peers by group, index and allocation ID: the first one leads
// where no one does yet.
func (p Peer) Before(o Peer) bool {
	return cmp.Or(cmp.Compare(p.Group, o.Group), cmp.Compare(p.Index, o.Index), cmp.Compare(p.AllocID, o.AllocID)) < 0
}

// View is one reading of the registry.
type View struct {
	Peers []Peer
	// Index grows with the registry's content.
	Index uint64
	// At is when the reading was asked for: nothing recorded before is missing.
	At time.Duration
}

// Kind is what a request asks.
type Kind string

const (
	// Probe asks whom a peer follows and what it knows.
	Probe Kind = "probe"
	// Promise asks it to obey no term below the one named.
	Promise Kind = "promise"
	// Lead reports that the sender leads, and the rings formed.
	Lead Kind = "lead"
	// Accept asks it to agree to a ring.
	Accept Kind = "accept"
)

// State is what an agent reports of itself in each request and reply.
type State struct {
	From    Peer
	Process uint64
	// Promised is the highest term it obeys, PromisedTo its candidate.
	Promised   uint64
	PromisedTo Process
	// Leader is whom it follows, at LeaderTerm. Zero when no one.
	Leader     Peer
	LeaderTerm uint64
	// Lost is the highest term whose leader it lost.
	Lost uint64
	// Eligible is set when it could lead.
	Eligible bool
	Rings    Rings
}

// process is the sender's.
func (s State) process() Process { return Process{s.From.AllocID, s.Process} }

// Leads reports whether the sender leads.
func (s State) Leads() bool { return s.Leader.AllocID != "" && s.Leader.AllocID == s.From.AllocID }

// Request is one call.
type Request struct {
	Kind  Kind
	State State
	// Term is the one that a Promise asks for, else the sender's own.
	Term uint64
	// Ring is the one to Accept.
	Ring Ring
}

// Reply answers a Request.
type Reply struct {
	// OK is the answer to Promise, Lead and Accept.
	OK    bool
	State State
}

// Outcome is how a call ended.
type Outcome int

const (
	// Answered calls have a Reply.
	Answered Outcome = iota + 1
	// Refused calls found nothing listening: that process is dead.
	Refused
	// Unknown covers time-outs and every other failure: the peer may live.
	Unknown
)

// Leadership is whom the agent follows from now on.
type Leadership struct {
	// Term is the leader's; a higher one always replaces a lower one.
	Term uint64
	// Leader is the zero Peer when there is none just now.
	Leader Peer
	// Self is true when this agent leads.
	Self bool
}

// Action is one of Call, Follow, Refresh and Formed.
type Action interface{ action() }

// Call sends a request to a peer; its outcome goes to Machine.Answer.
type Call struct {
	ID      uint64
	To      Peer
	Request Request
}

// Follow reports a change of leadership.
type Follow struct{ Leadership Leadership }

// Refresh asks for a new reading of the registry.
type Refresh struct{}

// Formed ends a Machine.Propose: Err is nil when the ring may start.
type Formed struct {
	Ring Ring
	Err  error

	on    []Ring // those known when it was formed
	index uint64 // of the registry then
}

func (Call) action()    {}
func (Follow) action()  {}
func (Refresh) action() {}
func (Formed) action()  {}
