// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/election"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/driver/internal/registrytest"
)

// patience is how long tests wait for what happens in milliseconds.
const patience = time.Minute

// testAgent is an elector with the server it needs.
type testAgent struct {
	*Elector
	peer registry.Peer
	stop func() // ends the agent as a crash would, and waits
}

// startAgent runs the agent of the given index on a port of its own and
// registers it, unless its own registry is given.
func startAgent(t testing.TB, w *world, index int) *testAgent {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	a := &testAgent{peer: registry.Peer{
		AllocID: fmt.Sprintf("alloc-%d", index), Group: "workers", Index: index, Addr: l.Addr().String(),
	}}
	transport := w.transport(t, a.peer.AllocID)
	a.Elector, err = NewElector(Options{
		Self: a.peer, Service: "train", Registry: w.reg, Logger: hclog.NewNullLogger(),
		Dial: func(_ context.Context, addr, alloc string) (*grpc.ClientConn, error) {
			return grpc.NewClient(addr, grpc.WithTransportCredentials(transport.Client(alloc)))
		},
	})
	must.NoError(t, err)
	srv := grpc.NewServer(grpc.Creds(transport.Server()))
	a.Register(srv)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	wg.Go(func() { _ = a.Run(ctx) })
	a.stop = func() {
		srv.Stop()
		cancel()
		wg.Wait()
	}
	t.Cleanup(a.stop)
	w.reg.Add(a.peer)
	return a
}

// agreed waits until all follow one leader and returns the leadership.
func agreed(t testing.TB, agents ...*testAgent) Leadership {
	t.Helper()
	var first Leadership
	eventually(t, func() error {
		first = agents[0].Current()
		for _, a := range agents {
			l := a.Current()
			if l.Leader.AllocID == "" || l.Leader.AllocID != first.Leader.AllocID || l.Term != first.Term {
				return fmt.Errorf("%s follows %q at %d, want %q: %w", a.peer.AllocID, l.Leader.AllocID, l.Term, first.Leader.AllocID, a.Problem())
			}
		}
		return nil
	})
	return first
}

func eventually(t testing.TB, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %v", patience, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestElector(t *testing.T) {
	w := newWorld(t)
	var agents []*testAgent
	for i := range 4 {
		agents = append(agents, startAgent(t, w, i))
	}
	first := agreed(t, agents...)
	lead := agents[first.Leader.Index]
	must.True(t, lead.Current().Self)
	must.Eq(t, first.Term, (<-agents[(first.Leader.Index+1)%4].Leadership()).Term)
	must.Eq(t, lead.peer.Addr, first.Leader.Addr)

	eventually(t, func() error { // its followers' answers may be on their way
		if ok, why := lead.MayForm([]string{"alloc-0", "alloc-1", "alloc-2", "alloc-3"}); !ok {
			return errors.New(why)
		}
		return nil
	})
	must.NoError(t, lead.Form(t.Context(), 1, []string{"alloc-0", "alloc-1", "alloc-2"}))
	must.Eq(t, 1, lead.LastRing().Generation)
	must.ErrorIs(t, lead.Form(t.Context(), 1, []string{"alloc-0"}), election.ErrGeneration)
	for _, a := range agents {
		if a != lead {
			must.ErrorIs(t, a.Form(t.Context(), 2, []string{"alloc-0"}), election.ErrNotLeader)
			ok, why := a.MayForm(nil)
			must.False(t, ok)
			must.StrContains(t, why, "does not lead")
		}
	}

	// The leader dies; those that follow it notice.
	lead.stop()
	var rest []*testAgent
	for _, a := range agents {
		if a != lead {
			rest = append(rest, a)
		}
	}
	eventually(t, func() error { // one may hear from another that the leader is there
		for _, a := range rest {
			if a.LeaderLost(first.Term); a.Current().Term == first.Term {
				return fmt.Errorf("%s still follows", a.peer.AllocID)
			}
		}
		return nil
	})
	second := agreed(t, rest...)
	must.Greater(t, first.Term, second.Term)
	next := agents[second.Leader.Index]
	must.Eq(t, 1, next.LastRing().Generation)
	must.NoError(t, next.Form(t.Context(), 2, []string{rest[0].peer.AllocID, rest[1].peer.AllocID, rest[2].peer.AllocID}))

	// One with a lower index joins: the leader stays.
	again := startAgent(t, w, first.Leader.Index)
	third := agreed(t, append(rest, again)...)
	must.Eq(t, second.Leader.AllocID, third.Leader.AllocID)

	// The leader leaves in good order: it gives way at once.
	next.Leave()
	for _, a := range append(rest, again) {
		a.LeaderLost(third.Term)
	}
	eventually(t, func() error {
		if l := again.Current(); l.Leader.AllocID == "" || l.Leader.AllocID == next.peer.AllocID {
			return fmt.Errorf("%s still leads", next.peer.AllocID)
		}
		return nil
	})
	fourth := agreed(t, append(rest, again)...)
	must.NotEq(t, next.peer.AllocID, fourth.Leader.AllocID)
}

func TestElector_formWaits(t *testing.T) {
	w := newWorld(t)
	a, b := startAgent(t, w, 0), startAgent(t, w, 1)
	l := agreed(t, a, b)
	lead := map[bool]*testAgent{true: a, false: b}[l.Leader.AllocID == "alloc-0"]

	// A peer is registered but silent: nothing may be formed before the first ring
	// without it.
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	must.NoError(t, err)
	defer silent.Close()
	w.reg.Add(registry.Peer{AllocID: "silent", Index: 9, Addr: silent.Addr().String()})
	eventually(t, func() error {
		if ok, why := lead.MayForm([]string{"alloc-0", "alloc-1"}); ok || why == "" {
			return errors.New("it may form a ring")
		}
		return nil
	})
	generation := uint64(0)
	next := func() uint64 { generation++; return generation } // each is used once
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := lead.Form(ctx, next(), []string{"alloc-0", "alloc-1"})
		must.ErrorIs(t, err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "has not answered") {
			return fmt.Errorf("the other has not agreed yet: %w", err)
		}
		return nil
	})

	// A waiting ring is formed as soon as the silent peer is dropped.
	done := make(chan error, 1)
	go func() { done <- lead.Form(t.Context(), next(), []string{"alloc-0", "alloc-1"}) }()
	w.reg.Remove("silent")
	must.NoError(t, <-done)

	// The next call ends the one before.
	w.reg.Add(registry.Peer{AllocID: "new", Index: 9, Addr: silent.Addr().String()})
	go func() { done <- lead.Form(t.Context(), next(), []string{"new"}) }()
	eventually(t, func() error {
		lead.mu.Lock()
		defer lead.mu.Unlock()
		if len(lead.forming) == 0 {
			return errors.New("not forming")
		}
		return nil
	})
	must.NoError(t, lead.Form(t.Context(), next(), []string{"alloc-0", "alloc-1"})) // their quorum is enough now
	must.ErrorIs(t, <-done, election.ErrSuperseded)
}

func TestElector_speaksForItself(t *testing.T) {
	w := newWorld(t)
	a := startAgent(t, w, 0)
	agreed(t, a)
	w.reg.Add(registry.Peer{AllocID: "mallory"})
	conn, err := grpc.NewClient(a.peer.Addr, grpc.WithTransportCredentials(w.transport(t, "mallory").Client("alloc-0")))
	must.NoError(t, err)
	defer conn.Close()
	client := pb.NewElectionClient(conn)
	for name, tc := range map[string]struct {
		from string
		want codes.Code
	}{
		"itself":         {"mallory", codes.OK},
		"another":        {"alloc-1", codes.PermissionDenied},
		"nobody":         {"", codes.InvalidArgument},
		"the one called": {"alloc-0", codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Probe(t.Context(), &pb.Request{State: &pb.State{From: &pb.Peer{AllocId: tc.from}}})
			must.Eq(t, tc.want, status.Code(err))
		})
	}
	_, err = client.Accept(t.Context(), &pb.Request{Term: 1 << 60, State: &pb.State{From: &pb.Peer{AllocId: "mallory"}}})
	must.Eq(t, codes.InvalidArgument, status.Code(err))
}

// TestElector_departing: an allocation that is no longer registered may ask who
// leads, and has no vote.
func TestElector_departing(t *testing.T) {
	w := newWorld(t)
	a := startAgent(t, w, 0)
	agreed(t, a)
	conn, err := grpc.NewClient(a.peer.Addr, grpc.WithTransportCredentials(w.transport(t, "leaving", func(c *claims) {
		c.IssuedAt, c.NotBefore = jwt.NewNumericDate(testNow), nil
	}).Client("alloc-0")))
	must.NoError(t, err)
	defer conn.Close()
	client := pb.NewElectionClient(conn)
	r := &pb.Request{Term: 1 << 60, State: &pb.State{From: &pb.Peer{AllocId: "leaving"}, Process: 1}, Ring: toRing(Ring{Hosts: []election.Host{{AllocID: "leaving"}}})}
	_, err = client.Probe(t.Context(), r)
	must.NoError(t, err)
	for _, call := range []func(context.Context, *pb.Request, ...grpc.CallOption) (*pb.Reply, error){client.Promise, client.Lead, client.Accept} {
		_, err := call(t.Context(), r)
		must.Eq(t, codes.PermissionDenied, status.Code(err))
	}
	must.True(t, a.Current().Self)
}

func TestElector_notRegistered(t *testing.T) {
	e, err := NewElector(Options{
		Self: registry.Peer{AllocID: "a", Group: "workers"}, Service: "train", Namespace: "ml", Registry: registrytest.NewStatic(), Logger: hclog.NewNullLogger(),
		Dial: func(context.Context, string, string) (*grpc.ClientConn, error) { return nil, errors.New("not called") },
	})
	must.NoError(t, err)
	must.ErrorIs(t, e.Problem(), ErrNotRegistered)
	must.ErrorContains(t, e.Problem(), `service { name = "train" provider = "nomad"`)
	must.ErrorIs(t, e.Form(t.Context(), 1, []string{"a"}), ErrStopped)
}

func TestNewElector_options(t *testing.T) {
	dial := func(context.Context, string, string) (*grpc.ClientConn, error) { return nil, nil }
	for name, o := range map[string]Options{
		"no allocation": {Registry: registrytest.NewStatic(), Dial: dial},
		"no registry":   {Self: registry.Peer{AllocID: "a"}, Dial: dial},
		"no dial":       {Self: registry.Peer{AllocID: "a"}, Registry: registrytest.NewStatic()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewElector(o)
			must.Error(t, err)
		})
	}
}

// BenchmarkElector_first measures the time from the registration of the last of
// four agents until all follow one leader, and BenchmarkElector_takeover the time
// from the leader's death.
func BenchmarkElector_first(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		var agents []*testAgent
		for i := range 3 {
			agents = append(agents, startAgent(b, w, 3-i))
		}
		b.StartTimer()
		agents = append(agents, startAgent(b, w, 0))
		agreed(b, agents...)
		b.StopTimer()
		for _, a := range agents {
			a.stop()
		}
		b.StartTimer()
	}
}

func BenchmarkElector_takeover(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		var agents []*testAgent
		for i := range 4 {
			agents = append(agents, startAgent(b, w, i))
		}
		l := agreed(b, agents...)
		must.NoError(b, agents[l.Leader.Index].Form(b.Context(), 1, []string{"alloc-0", "alloc-1", "alloc-2", "alloc-3"}))
		var rest []*testAgent
		for _, a := range agents {
			if a.peer.Index != l.Leader.Index {
				rest = append(rest, a)
			}
		}
		agents[l.Leader.Index].stop()
		b.StartTimer()
		for _, a := range rest {
			a.LeaderLost(l.Term)
		}
		agreed(b, rest...)
		b.StopTimer()
		for _, a := range rest {
			a.stop()
		}
		b.StartTimer()
	}
}
