// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/discovery/election"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// Ring is a set of hosts that were allowed to train together.
type Ring = election.Ring

// Options configure an Elector.
type Options struct {
	// Self is this agent. AllocID, Group, Index and Addr are required.
	Self registry.Peer
	// Service is the name of the Nomad service and Namespace the job's namespace, for
	// messages.
	Service, Namespace string
	// Registry lists the peers.
	Registry registry.Registry
	// Dial opens connections to peers. The Elector closes them.
	Dial   Dialer
	Logger hclog.Logger
}

// Dialer opens a connection to an allocation at its service address. It must send nothing
// to any other process that listens there (Transport.Client). It need not wait until the
// connection is up (grpc.NewClient).
type Dialer func(ctx context.Context, addr, allocID string) (*grpc.ClientConn, error)

// Leadership states which agent leads, as this agent knows it.
type Leadership = election.Leadership

// Errors of an Elector, in addition to those of package election and of contexts.
var (
	// ErrNotRegistered means that Nomad does not list the agent, so it cannot take part.
	ErrNotRegistered = errors.New("not registered")
	// ErrStopped is returned by an elector that is not running.
	ErrStopped = errors.New("the elector is not running")
)

// Elector finds the job's leader, or becomes the leader and lets it form rings. It runs an
// election.Machine: it sends the machine's calls, reads the registry, and keeps the time.
type Elector struct {
	o          Options
	log        hclog.Logger
	start      time.Time // when the machine's clock was 0
	leadership chan Leadership
	poke       chan struct{} // the time of the next tick may have changed
	pool       *pool

	mu       sync.Mutex // guards the fields below; held for steps of the machine, never during I/O
	machine  *election.Machine
	view     registry.View // last successful one
	viewErr  error
	running  bool
	ctx      context.Context // Run's
	calls    *errgroup.Group // Run's
	forming  []chan error    // in the order of their Formed actions
	reported string          // the problem logged last
}

// NewElector returns an elector, or an error if the options are invalid. The agent takes
// part in elections while Run runs.
func NewElector(o Options) (*Elector, error) {
	switch {
	case o.Self.AllocID == "":
		return nil, errors.New("discovery: no allocation ID of this agent")
	case o.Registry == nil:
		return nil, errors.New("discovery: no registry")
	case o.Dial == nil:
		return nil, errors.New("discovery: no way to dial a peer")
	}
	start := time.Now()
	cfg := election.Config{
		Self:    o.Self,
		Process: uint64(start.UnixNano()), Epoch: uint64(start.UnixMilli()),
		Retry: 300 * time.Millisecond, Fresh: 5 * time.Second, Advice: 15 * time.Second, First: 16,
	}
	return &Elector{
		o: o, log: o.Logger, start: start, machine: election.New(cfg),
		leadership: make(chan Leadership, 1), poke: make(chan struct{}, 1),
		pool: newPool(o.Dial, o.Logger),
	}, nil
}

// Leadership returns a channel with each change of leadership. A newer change replaces one
// that was not received.
func (e *Elector) Leadership() <-chan Leadership { return e.leadership }

// LeaderLost notes that the session with the leader of the term broke, or could not be
// opened. Late calls for earlier terms do nothing.
func (e *Elector) LeaderLost(term uint64) {
	e.step(func(now time.Duration) []election.Action { return e.machine.LeaderLost(now, term) })
}

// Leave notes that this agent is about to stop: it no longer stands for election, and as a
// leader it steps down once another agent can lead.
func (e *Elector) Leave() {
	e.step(e.machine.Leave)
}

// MayForm reports whether this agent may form a ring with the allocations that have a
// session with it, and if not, why. The answer is cheap but may be out of date; Form
// decides. After a refusal, call MayForm again later: the elector meanwhile probes the
// peers that are not connected, and their answers may change the result.
func (e *Elector) MayForm(connected []string) (bool, string) {
	err := ErrStopped
	e.step(func(now time.Duration) (acts []election.Action) {
		acts, err = e.machine.MayPropose(now, connected)
		return acts
	})
	if err != nil {
		return false, err.Error()
	}
	return true, ""
}

// Connect opens a connection to a peer that Form will soon need. Two agents that meet for
// the first time verify each other's identity, and training would have to wait for that.
// Connect does not wait; Form reports any failure.
func (e *Elector) Connect(allocID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, known := e.view.Find(allocID)
	if !e.running || !known || allocID == e.o.Self.AllocID {
		return
	}
	ctx := e.ctx
	e.calls.Go(func() error {
		e.pool.connect(ctx, endpointOf(p))
		return nil
	})
}

// Form gets the peers' agreement to a new ring. It must return before any slot of the ring
// starts to train. hosts are in rank order. Form needs one round trip to the hosts and one
// to the registry if all is well, and otherwise waits as long as a quorum is possible and
// ctx allows. A second call ends the first with election.ErrSuperseded.
//
// After an error the ring must not start, and its generation is used up: call Form again
// with a generation above LastRing's. After nil the ring may start, and no other ring may,
// except its successors (package election defines the exact guarantee).
func (e *Elector) Form(ctx context.Context, generation uint64, hosts []string) error {
	done := make(chan error, 1)
	hosts = append([]string(nil), hosts...)
	if !e.step(func(now time.Duration) []election.Action {
		e.forming = append(e.forming, done)
		return e.machine.Propose(now, generation, hosts)
	}) {
		return ErrStopped
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	var why error
	e.step(func(now time.Duration) []election.Action {
		if len(e.forming) == 0 || e.forming[0] != done {
			return nil // it has ended meanwhile
		}
		why = e.machine.Pending(now)
		return e.machine.Withdraw(now)
	})
	if err := <-done; why == nil {
		return err
	}
	return fmt.Errorf("ring %d: %w: %w", generation, why, ctx.Err())
}

// LastRing returns the ring of the highest generation that this agent has accepted or
// received. It may not have been formed.
func (e *Elector) LastRing() Ring {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.machine.Rings().Latest()
}

// problem returns what keeps this agent without a leader, nil if it has one. The caller
// holds e.mu.
func (e *Elector) problem() error {
	_, registered := e.view.Find(e.o.Self.AllocID)
	switch {
	case e.machine.Leadership().Leader.AllocID != "":
		return nil
	case e.viewErr != nil:
		return e.viewErr
	case !registered:
		return fmt.Errorf("%w: allocation %s is not listed as an instance of service %q in namespace %q; give group %q a `service { name = %q provider = \"nomad\" port = … }` block, the same name in each group of the ring",
			ErrNotRegistered, e.o.Self.AllocID, e.o.Service, e.o.Namespace, e.o.Self.Group, e.o.Service)
	}
	return e.machine.Why()
}

// now returns the machine's time. The caller holds e.mu.
func (e *Elector) now() time.Duration { return time.Since(e.start) }
