// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/horovod/rendezvous"
)

// busyLeader begins a session with a leader whose goroutine does nothing.
func busyLeader(t *testing.T, silence time.Duration) *clientSession {
	t.Helper()
	n := newTestNomad(t, "lead", "a")
	leader := NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Logger: hclog.NewNullLogger()})
	server := newServer(n.transport("lead").Server())
	registerSessions(server, func() *Leader { return leader })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s, err := openSession(ctx, listen(t, server, newWeb(nil), 0), n.transport("a").Client("lead"), silence)
	must.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

func TestABusyLeaderIsHeard(t *testing.T) {
	t.Parallel()
	s := busyLeader(t, silence)
	must.NoError(t, s.send(&ToLeader{Register: &Register{Info: elastic.HostInfo{ID: "a"}, AllocID: "a"}}))
	for range 2 {
		m, err := s.recv()
		must.NoError(t, err)
		must.Eq(t, &ToAgent{}, m)
	}
}

func TestASilentLeaderIsLost(t *testing.T) {
	t.Parallel()
	s := busyLeader(t, 50*time.Millisecond) // and without a registration, it says nothing
	_, err := s.recv()
	must.ErrorContains(t, err, "no word from the leader for 50ms")
}

// TestALongMessageIsNoSilence sends one that takes twice as long as the leader
// may be silent.
func TestALongMessageIsNoSilence(t *testing.T) {
	t.Parallel()
	n := newTestNomad(t, "lead", "a")
	server := newServer(n.transport("lead").Server())
	server.RegisterService(&grpc.ServiceDesc{ServiceName: sessionService, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Session", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			return stream.SendMsg(&ToAgent{Fill: &Fill{Fill: rendezvous.Fill{Values: map[string][]byte{"0": make([]byte, 9<<19)}}}})
		},
	}}}, struct{}{})
	addr := slowLine(t, listen(t, server, newWeb(nil), 0))
	s, err := openSession(t.Context(), addr, n.transport("a").Client("lead"), 3*time.Second)
	must.NoError(t, err)
	defer s.close()
	m, err := s.recv()
	must.NoError(t, err)
	must.NotNil(t, m.Fill)
}

// slowLine passes connections on to addr; what comes back is passed on in small
// pieces, of 1 MiB in a second.
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*silence)
	defer cancel()
	_, err = openSession(ctx, l.Addr().String(), newTestNomad(t, "lead", "a").transport("a").Client("lead"), silence)
	must.Eq(t, codes.Unavailable, status.Code(err), must.Sprint(err))
}

// TestTheLeaderHearsTheServiceAddress: it asks there whether a host lives whose
// session has ended, and the host's own listening address would lead it to
// itself.
func TestTheLeaderHearsTheServiceAddress(t *testing.T) {
	a := &remote{config: Config{AllocID: "a", Slots: 1, Listen: ":25000", Interface: "lo"}, log: hclog.NewNullLogger()}
	a.makeHost("192.0.2.7:25000")
	must.Eq(t, "192.0.2.7:25000", a.host.register().Addr)
}
