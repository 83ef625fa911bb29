// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// busyLeader begins a session with a leader whose goroutine does nothing.
func busyLeader(t *testing.T) *clientSession {
	t.Helper()
	secret := discovery.NewSecret()
	leader := NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Logger: hclog.NewNullLogger()})
	server := newServer(secret)
	registerSessions(server, func() *Leader { return leader })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s, err := openSession(ctx, listen(t, server, newWeb(nil), 0), secret.Credentials("a"))
	must.NoError(t, err)
	t.Cleanup(s.close)
	return s.(*clientSession)
}

func TestABusyLeaderIsHeard(t *testing.T) {
	t.Parallel()
	s := busyLeader(t)
	must.NoError(t, s.send(&ToLeader{Register: &Register{Info: elastic.HostInfo{ID: "a"}, AllocID: "a"}}))
	for range 2 {
		m, err := s.recv()
		must.NoError(t, err)
		must.Eq(t, &ToAgent{}, m)
	}
}

func TestASilentLeaderIsLost(t *testing.T) {
	t.Parallel()
	s := busyLeader(t)
	s.silence = 50 * time.Millisecond // and without a registration, it says nothing
	_, err := s.recv()
	must.ErrorContains(t, err, "no word from the leader for 50ms")
}

func TestAVanishedLeaderIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and that is all
	must.NoError(t, err)
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*silence)
	defer cancel()
	_, err = openSession(ctx, l.Addr().String(), discovery.NewSecret().Credentials("a"))
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
