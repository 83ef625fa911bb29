// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/port"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/internal/peertest"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// oneSlot is the configuration of a job that needs only one process.
var oneSlot = config.Config{Training: settings.Training{NP: 1, MinNP: 1, ElasticTimeout: settings.Duration(time.Hour)}}

// serve serves a test's server on an agent's port.
func serve(t *testing.T, server *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	ports := port.Share(l, func() int { return 4 })
	go func() { _ = server.Serve(ports.Agents()) }()
	t.Cleanup(func() { server.Stop(); ports.Close() })
	return l.Addr().String()
}

// lead serves sessions with the server by the leader.
func lead(server *grpc.Server, l *leader.Leader) {
	Register(server, func(s *LeaderEnd) error { return l.Serve(s) })
}

// busyLeader begins a session with a leader whose goroutine does nothing.
func busyLeader(t *testing.T, timeout time.Duration) *HostEnd {
	t.Helper()
	n := peertest.New(t, "lead", "a")
	server := NewServer(n.Transport("lead").Server())
	lead(server, leader.New(leader.Options{Config: oneSlot, Logger: hclog.NewNullLogger()}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s, err := Open(ctx, serve(t, server), n.Transport("a").Client("lead"), timeout)
	must.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestABusyLeaderIsHeard(t *testing.T) {
	t.Parallel()
	s := busyLeader(t, wire.HeartbeatTimeout)
	must.NoError(t, s.Send(&wire.ToLeader{Register: &wire.Register{Info: elastic.HostInfo{ID: "a"}, AllocID: "a"}}))
	for range 2 {
		m, err := s.Recv()
		must.NoError(t, err)
		must.Eq(t, &wire.ToAgent{}, m)
	}
}

func TestASilentLeaderIsLost(t *testing.T) {
	t.Parallel()
	s := busyLeader(t, 50*time.Millisecond) // and without a registration, it sends nothing
	_, err := s.Recv()
	must.ErrorContains(t, err, "no message from the leader for 50ms")
}

// TestALongMessageIsNoSilence sends a message that takes twice as long as the leader may be
// silent.
func TestALongMessageIsNoSilence(t *testing.T) {
	t.Parallel()
	n := peertest.New(t, "lead", "a")
	server := NewServer(n.Transport("lead").Server())
	server.RegisterService(&grpc.ServiceDesc{ServiceName: sessionService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Session", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			return stream.SendMsg(&wire.ToAgent{Fill: &wire.RingFill{Fill: wire.Fill{Values: map[string][]byte{"0": make([]byte, 9<<19)}}}})
		},
	}}}, struct{}{})
	addr := slowLine(t, serve(t, server))
	s, err := Open(t.Context(), addr, n.Transport("a").Client("lead"), 3*time.Second)
	must.NoError(t, err)
	defer s.Close()
	m, err := s.Recv()
	must.NoError(t, err)
	must.NotNil(t, m.Fill)
}

// slowLine passes connections on to addr. It passes answers on in small pieces, 1 MiB per
// second.
func slowLine(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(far, near) }()
			go func() {
				for {
					if _, err := io.CopyN(near, far, 10<<10); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestAVanishedLeaderIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and that is all
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*wire.HeartbeatTimeout)
	defer cancel()
	_, err = Open(ctx, l.Addr().String(), peertest.New(t, "lead", "a").Transport("a").Client("lead"), wire.HeartbeatTimeout)
	must.Eq(t, codes.Unavailable, status.Code(err), must.Sprint(err))
}

// TestStrangersAreRefusedUnread makes a call whose request would show if the server read it.
func TestStrangersAreRefusedUnread(t *testing.T) {
	t.Parallel()
	n := peertest.New(t, "lead", "a")
	server := NewServer(n.Transport("lead").Server())
	var read atomic.Bool
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			read.Store(true) // by then the whole request is in memory
			return nil, errors.New("read")
		},
	}}}, struct{}{})
	addr := serve(t, server)
	call := func(creds credentials.TransportCredentials) error {
		conn, err := Dial(addr, creds)
		must.NoError(t, err)
		defer func() { _ = conn.Close() }()
		return conn.Invoke(t.Context(), "/test/Call", make([]byte, 1<<20), nil, grpc.CallContentSubtype(jsonCodecName))
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"plaintext": insecure.NewCredentials(), "no certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"signed by another Nomad": peertest.New(t, "lead", "a").Transport("a").Client("lead"),
	} {
		must.Eq(t, codes.Unavailable, status.Code(call(creds)), must.Sprint(name))
		must.False(t, read.Load(), must.Sprint(name))
	}
	must.ErrorContains(t, call(n.Transport("a").Client("lead")), "read")
}

// A dead agent is lost at once, because its port refuses the connection.
func TestADeadAgentIsLostAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	n := peertest.New(t, "a", "b")
	l := leader.New(leader.Options{Config: oneSlot, Term: 1, Logger: hclog.NewNullLogger(), HostTimeout: time.Hour,
		Present: func(string, time.Time) (bool, bool) { return true, true }})
	wg.Go(func() { _ = l.Run(t.Context()) })
	listen := func() net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must.NoError(t, err)
		return listener
	}
	listener, dead := listen(), listen()
	must.NoError(t, dead.Close())
	server := NewServer(n.Transport("a").Server())
	lead(server, l)
	wg.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(server.Stop)

	s, err := Open(t.Context(), listener.Addr().String(), n.Transport("b").Client("a"), wire.HeartbeatTimeout)
	must.NoError(t, err)
	must.NoError(t, s.Send(&wire.ToLeader{Register: &wire.Register{AllocID: "b", Addr: dead.Addr().String(),
		Info: elastic.HostInfo{ID: "b", Slots: make([]elastic.SlotReport, 1)}}}))
	until := func(hosts int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if l.Status(t.Context()).Hosts == hosts {
				return
			}
			must.True(t, time.Now().Before(end), must.Sprintf("waiting for %d hosts", hosts))
		}
	}
	until(1)
	s.Close()
	until(0)
}
