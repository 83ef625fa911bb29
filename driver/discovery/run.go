// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/election"
	"github.com/kolo-nomad/kolo/driver/discovery/internal/latest"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// reportEvery is the interval at which an agent without a leader logs why.
const reportEvery = 5 * time.Second

// Run takes part in elections until ctx ends, and then waits for its goroutines. It
// returns ctx's error. Call it only once.
func (e *Elector) Run(ctx context.Context) error {
	calls, callCtx := errgroup.WithContext(ctx)
	e.mu.Lock()
	e.ctx, e.calls, e.running = callCtx, calls, true
	e.mu.Unlock()

	views := e.o.Registry.Watch(ctx)
	report := time.NewTicker(reportEvery)
	defer report.Stop()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case v, ok := <-views:
			if !ok {
				views = nil
				continue
			}
			e.look(v)
		case <-tick.C:
			e.step(e.machine.Tick)
		case <-e.poke:
			if d, ok := e.untilTick(); ok {
				tick.Reset(d)
			} else {
				tick.Stop()
			}
		case <-report.C:
			e.report()
			e.pool.prune()
		case <-ctx.Done():
		}
	}
	e.mu.Lock()
	e.running = false
	for _, done := range e.forming {
		done <- ErrStopped
	}
	e.forming = nil
	e.mu.Unlock()
	_ = calls.Wait() // the calls report to the machine, not here
	e.pool.close()
	return ctx.Err()
}

// step runs one step of the machine and carries out the actions that it returns. It
// reports whether the elector is running.
func (e *Elector) step(do func(now time.Duration) []election.Action) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		return false
	}
	e.carryOut(do(e.now()))
	return true
}

// carryOut executes the machine's actions. The caller holds e.mu, so nothing here
// may block.
func (e *Elector) carryOut(actions []election.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case election.Call:
			ctx := e.ctx
			e.calls.Go(func() error {
				outcome, reply := e.pool.call(ctx, a)
				e.step(func(now time.Duration) []election.Action {
					return e.machine.Answer(now, a.ID, outcome, reply)
				})
				return nil
			})
		case election.Refresh:
			ctx := e.ctx
			e.calls.Go(func() error {
				e.look(e.o.Registry.Read(ctx))
				return nil
			})
		case election.Follow:
			l := a.Leadership
			e.log.Info("leadership", "leader", l.Leader.AllocID, "address", l.Leader.Addr, "term", l.Term, "self", l.Self)
			latest.Send(e.leadership, l)
		case election.Formed:
			done := e.forming[0]
			e.forming = e.forming[1:]
			done <- a.Err
		}
	}
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

func (e *Elector) untilTick() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.machine.Next()
	return max(0, at-e.now()), ok
}

// look passes a view of the registry to the machine.
func (e *Elector) look(v registry.View) {
	e.step(func(now time.Duration) []election.Action {
		e.viewErr = v.Err
		if v.Err != nil {
			return nil
		}
		e.view = v
		return e.machine.View(now, election.View{Peers: v.Peers, Index: v.Index, At: v.At.Sub(e.start)})
	})
}

// report logs why there is no leader, once for each reason.
func (e *Elector) report() {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := ""
	if err := e.problem(); err != nil {
		text = err.Error()
	}
	if text != e.reported && text != "" {
		e.log.Warn("no leader yet", "reason", text)
	}
	e.reported = text
}

// Register adds the election service to the agent's gRPC server. Call it before the
// server starts. The server needs the credentials of a Transport, so that a caller
// can speak only for the allocation that it has proved to be.
func (e *Elector) Register(r grpc.ServiceRegistrar) {
	pb.RegisterElectionServer(r, &service{e: e})
}

type service struct {
	pb.UnimplementedElectionServer
	e *Elector
}

func (s *service) Probe(ctx context.Context, r *pb.Request) (*pb.Reply, error) {
	return s.receive(ctx, election.Probe, r)
}

func (s *service) Promise(ctx context.Context, r *pb.Request) (*pb.Reply, error) {
	return s.receive(ctx, election.Promise, r)
}

func (s *service) Lead(ctx context.Context, r *pb.Request) (*pb.Reply, error) {
	return s.receive(ctx, election.Lead, r)
}

func (s *service) Accept(ctx context.Context, r *pb.Request) (*pb.Reply, error) {
	return s.receive(ctx, election.Accept, r)
}

func (s *service) receive(ctx context.Context, kind election.Kind, r *pb.Request) (*pb.Reply, error) {
	req := fromRequest(kind, r)
	from := req.State.From.AllocID
	if from == "" || from == s.e.o.Self.AllocID {
		return nil, status.Errorf(codes.InvalidArgument, "want a peer's allocation, got %q", from)
	}
	if kind == election.Accept && req.Ring.IsZero() {
		return nil, status.Error(codes.InvalidArgument, "no ring to accept")
	}
	id, ok := IdentityFrom(ctx)
	switch {
	case !ok:
		return nil, status.Error(codes.Unauthenticated, "the caller has not proved who it is")
	case id.AllocID != from:
		return nil, status.Errorf(codes.PermissionDenied, "allocation %s speaks for %s", id.AllocID, from)
	case id.Departing && kind != election.Probe:
		// Such a caller may ask who leads, in order to leave the ring cleanly, and
		// nothing else.
		return nil, status.Errorf(codes.PermissionDenied, "allocation %s is no longer registered", id.AllocID)
	}
	var reply election.Reply
	if !s.e.step(func(now time.Duration) []election.Action {
		var acts []election.Action
		reply, acts = s.e.machine.Receive(now, req)
		return acts
	}) {
		return nil, status.Error(codes.Unavailable, ErrStopped.Error())
	}
	return toReply(reply), nil
}
