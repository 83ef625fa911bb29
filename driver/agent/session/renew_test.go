// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/internal/peertest"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestRenewal(t *testing.T) {
	now := time.Now()
	seen := map[time.Time]bool{}
	for range 100 {
		at := renewal(now, now.Add(15*time.Minute), renewSoonest)
		must.Between(t, 7*time.Minute+30*time.Second, at.Sub(now), 10*time.Minute)
		seen[at] = true
	}
	must.Greater(t, 1, len(seen), must.Sprint("agents that began at once do not all renew at once"))
	for _, left := range []time.Duration{-time.Minute, 0, time.Second, 10 * time.Second} {
		must.Eq(t, now.Add(renewSoonest), renewal(now, now.Add(left), renewSoonest))
	}
}

// While Nomad has not renewed an identity, a new session would not last longer than the
// current one, and does not replace it.
func TestRenewal_noLonger(t *testing.T) {
	t.Parallel()
	n := peertest.New(t, "lead", "a")
	led := leader.New(leader.Options{Config: oneSlot, Logger: hclog.NewNullLogger()})
	server := NewServer(n.Transport("lead").Server())
	lead(server, led)
	addr := serve(t, server)
	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	n.Sign(file, "a", time.Minute)
	caller := n.TransportFrom(file)
	opened := make(chan *HostEnd, 1)
	f := &Follower{soonest: time.Millisecond, Log: hclog.NewNullLogger(), Open: func() (*HostEnd, error) {
		s, err := Open(t.Context(), addr, caller.Client("lead"), wire.HeartbeatTimeout)
		if err == nil {
			opened <- s
		}
		return s, err
	}}
	first, err := f.Open()
	must.NoError(t, err)
	defer first.Close()
	<-opened
	first.until = first.until.Add(-time.Minute) // it is time to renew
	second, err := f.longer(first)
	must.NoError(t, err)
	defer second.Close()
	<-opened
	_, err = f.longer(second)
	must.ErrorContains(t, err, "not renewed")
	must.Error(t, (<-opened).ctx.Err(), must.Sprint("it is closed"))
	must.NoError(t, second.ctx.Err())
}

// TestSessionsAreRenewed uses certificates of a few seconds. The leader must see one host
// all the time, and never without a session.
func TestSessionsAreRenewed(t *testing.T) {
	t.Parallel()
	n := peertest.New(t, "lead", "a")
	l := leader.New(leader.Options{Config: config.Config{Training: settings.Training{NP: 2, MinNP: 2, ElasticTimeout: settings.Duration(time.Hour)}}, Term: 1, Logger: hclog.NewNullLogger(), HostTimeout: time.Hour,
		PeerAuth: discovery.Authentication, Present: func(string, time.Time) (bool, bool) { return true, true }})
	server := NewServer(n.Transport("lead").Server())
	lead(server, l)
	addr := serve(t, server)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() { _ = l.Run(ctx) })
	quiet, err := events.Open("", hclog.NewNullLogger())
	must.NoError(t, err)
	h := host.New(host.Options{Framework: noFramework{}, Config: config.Config{AllocID: "a", Training: settings.Training{Slots: 1}}, ID: "a-1", Addr: addr, Logger: hclog.NewNullLogger(), Events: quiet})
	wg.Go(func() { h.Run(ctx) })

	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	n.Sign(file, "a", 3*time.Second)
	caller := n.TransportFrom(file)
	opened := make(chan *HostEnd, 100)
	f := &Follower{soonest: 100 * time.Millisecond, Attach: func(s *HostEnd) error { return h.Attach(s) }, Log: hclog.NewNullLogger(), Open: func() (*HostEnd, error) {
		n.Sign(file, "a", 3*time.Second) // as Nomad does
		s, err := Open(ctx, addr, caller.Client("lead"), wire.HeartbeatTimeout)
		if err == nil {
			opened <- s
		}
		return s, err
	}}
	first, err := f.Open()
	must.NoError(t, err)
	wg.Go(func() { _ = f.stay(ctx, first) })

	must.Eq(t, discovery.Authentication, l.Status(ctx).PeerAuth)
	joined := false
	for end := time.Now().Add(time.Minute); len(opened) < 4; time.Sleep(time.Millisecond) {
		must.True(t, time.Now().Before(end), must.Sprint("the session is not renewed"))
		all, attached := l.Status(ctx).Hosts, len(l.Attached())
		if joined = joined || attached > 0; joined {
			must.Eq(t, []int{1, 1}, []int{all, attached}, must.Sprint("the host is without a session"))
		}
	}
}

// No agent can register as another, nor with the name of another agent's host.
func TestASessionIsOfItsAllocation(t *testing.T) {
	t.Parallel()
	n := peertest.New(t, "lead", "a", "b")
	l := leader.New(leader.Options{Config: config.Config{Training: settings.Training{NP: 2, MinNP: 2, ElasticTimeout: settings.Duration(time.Hour)}}, Term: 1, Logger: hclog.NewNullLogger()})
	server := NewServer(n.Transport("lead").Server())
	lead(server, l)
	addr := serve(t, server)
	for name, c := range map[string]struct {
		r    wire.Register
		want string
	}{
		"another allocation": {wire.Register{Info: elastic.HostInfo{ID: "a-1"}, AllocID: "a"}, `allocation "b" registers as "a"`},
		"another's host":     {wire.Register{Info: elastic.HostInfo{ID: "a-1"}, AllocID: "b"}, `allocation "b" registers host "a-1", which is not its own`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := Open(ctx, addr, n.Transport("b").Client("lead"), wire.HeartbeatTimeout)
			must.NoError(t, err)
			defer s.Close()
			must.NoError(t, s.Send(&wire.ToLeader{Register: &c.r}))
			_, err = s.Recv()
			must.ErrorContains(t, err, c.want)
		})
	}
}

// noFramework is the framework of a host that starts no process.
type noFramework struct{ host.Framework }

func (noFramework) Reassigns() bool { return false }
func (noFramework) Standbys() bool  { return false }
