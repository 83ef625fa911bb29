// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/discovery/election"
)

// Ring is a set of hosts that were allowed to train together.
type Ring = election.Ring

// Options configure an Elector.
type Options struct {
	// Self is this agent. AllocID, Group, Index and Addr must be set.
	Self Peer
	// Registry tells the peers.
	Registry Registry
	// Dial connects to a peer's service address. It must fail when ctx ends and
	// must let a refused connection be told by errors.Is(err, ECONNREFUSED).
	// The Elector closes the connection.
	Dial func(ctx context.Context, addr string) (*grpc.ClientConn, error)
	// DialTimeout bounds each connect and each call, default 1 s.
	DialTimeout time.Duration
	// Retry is the pause between rounds of an election, default 300 ms; the
	// first ones are shorter.
	Retry  time.Duration
	Logger hclog.Logger
}

// Leadership says whom this agent follows.
type Leadership struct {
	// Term is the leader's; a higher one always replaces a lower one.
	Term uint64
	// Leader is the zero Peer when there is none just now.
	Leader Peer
	// Self is true when this agent leads.
	Self bool
}

// Elector finds the job's leader, or becomes it, and lets it form rings.
type Elector struct{}

var errNotYet = errors.New("discovery: elector not implemented yet")

// NewElector checks the options; Run starts the work.
func NewElector(Options) (*Elector, error) { return nil, errNotYet }

// Register offers the election service on the agent's gRPC server. Call it
// before the server starts.
func (e *Elector) Register(grpc.ServiceRegistrar) {}

// Run works until ctx ends.
func (e *Elector) Run(context.Context) error { return errNotYet }

// Leadership sends each change, the latest one only.
func (e *Elector) Leadership() <-chan Leadership { return nil }

// LeaderLost says that the session with the leader of the term broke, or could
// not be opened. Late calls for earlier terms do nothing.
func (e *Elector) LeaderLost(term uint64) {}

// Leave says that this agent is about to stop: it no longer stands for
// election where another can, and as leader gives way once the others can.
func (e *Elector) Leave() {}

// MayForm says whether this agent may form a ring, given the allocations that
// have a session with it, and if not, why. It is advice, cheap and possibly out
// of date; Form decides.
func (e *Elector) MayForm(connected []string) (bool, string) { return false, errNotYet.Error() }

// Form gets the peers' consent to a new ring of the given hosts, in order, rank
// 0's first, before any of its slots may start to train. It takes one round
// trip. After an error the ring must not start; the generation is spent.
//
// While Form returns nil to two leaders, no host of one of the two rings is
// known to Nomad any more (see package election).
func (e *Elector) Form(ctx context.Context, generation uint64, hosts []string) error {
	return errNotYet
}

// LastRing returns the highest ring this agent has consented to.
func (e *Elector) LastRing() Ring { return Ring{} }
