// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
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

// TestRenewal_noLonger: while an identity is not renewed, a session that would not
// last longer takes no other's place.
func TestRenewal_noLonger(t *testing.T) {
	t.Parallel()
	n := newTestNomad(t, "lead", "a")
	leader := NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Logger: hclog.NewNullLogger()})
	server := newServer(n.transport("lead").Server())
	registerSessions(server, func() *Leader { return leader })
	addr := listen(t, server, newWeb(nil), 0)
	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	n.sign(file, "a", time.Minute)
	caller := n.transportFrom(file)
	opened := make(chan *clientSession, 1)
	f := &follower{soonest: time.Millisecond, log: hclog.NewNullLogger(), open: func() (*clientSession, error) {
		s, err := openSession(t.Context(), addr, caller.Client("lead"), silence)
		if err == nil {
			opened <- s
		}
		return s, err
	}}
	first, err := f.open()
	must.NoError(t, err)
	defer first.close()
	<-opened
	first.until = first.until.Add(-time.Minute) // it is time to renew
	second, err := f.longer(first)
	must.NoError(t, err)
	defer second.close()
	<-opened
	_, err = f.longer(second)
	must.ErrorContains(t, err, "not renewed")
	must.Error(t, (<-opened).ctx.Err(), must.Sprint("it is closed"))
	must.NoError(t, second.ctx.Err())
}

// TestSessionsAreRenewed has certificates of a few seconds. The leader must see
// one host all the time, and never without a session.
func TestSessionsAreRenewed(t *testing.T) {
	t.Parallel()
	n := newTestNomad(t, "lead", "a")
	l := NewLeader(LeaderOptions{Config: Config{NP: 2, MinNP: 2}, Term: 1, Logger: hclog.NewNullLogger(), HostTimeout: time.Hour,
		PeerAuth: discovery.Authentication, Present: func(string, time.Time) (bool, bool) { return true, true }})
	server := newServer(n.transport("lead").Server())
	registerSessions(server, func() *Leader { return l })
	addr := listen(t, server, newWeb(nil), 0)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() { _ = l.Run(ctx) })
	host := NewHost(HostOptions{Config: Config{AllocID: "a", Slots: 1}, ID: "a-1", Addr: addr, Logger: hclog.NewNullLogger(), Stories: quietStories(t)})
	wg.Go(func() { host.Run(ctx) })

	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	n.sign(file, "a", 3*time.Second)
	caller := n.transportFrom(file)
	opened := make(chan *clientSession, 100)
	f := &follower{soonest: 100 * time.Millisecond, attach: host.Attach, log: hclog.NewNullLogger(), open: func() (*clientSession, error) {
		n.sign(file, "a", 3*time.Second) // as Nomad does
		s, err := openSession(ctx, addr, caller.Client("lead"), silence)
		if err == nil {
			opened <- s
		}
		return s, err
	}}
	first, err := f.open()
	must.NoError(t, err)
	wg.Go(func() { _ = f.stay(ctx, first) })

	must.Eq(t, discovery.Authentication, publishedBy(l).PeerAuth)
	hosts := func() (all, attached int) {
		c := make(chan [2]int, 1)
		l.post(func() {
			var n [2]int
			for _, m := range l.hosts {
				n[0]++
				if m.session != nil {
					n[1]++
				}
			}
			c <- n
		})
		counts := <-c
		return counts[0], counts[1]
	}
	joined := false
	for end := time.Now().Add(time.Minute); len(opened) < 4; time.Sleep(time.Millisecond) {
		must.True(t, time.Now().Before(end), must.Sprint("the session is not renewed"))
		all, attached := hosts()
		if joined = joined || attached > 0; joined {
			must.Eq(t, []int{1, 1}, []int{all, attached}, must.Sprint("the host is without a session"))
		}
	}
}

func publishedBy(l *Leader) *Status {
	c := make(chan *Status, 1)
	l.post(func() { l.publish(); c <- l.status })
	return <-c
}

func quietStories(t *testing.T) *stories {
	st, err := newStories("", hclog.NewNullLogger())
	must.NoError(t, err)
	return st
}

// TestASessionIsOfItsAllocation: no agent registers as another, nor with the name of
// another's host.
func TestASessionIsOfItsAllocation(t *testing.T) {
	t.Parallel()
	n := newTestNomad(t, "lead", "a", "b")
	l := NewLeader(LeaderOptions{Config: Config{NP: 2, MinNP: 2}, Term: 1, Logger: hclog.NewNullLogger()})
	server := newServer(n.transport("lead").Server())
	registerSessions(server, func() *Leader { return l })
	addr := listen(t, server, newWeb(nil), 0)
	for name, c := range map[string]struct {
		r    Register
		want string
	}{
		"another allocation": {Register{Info: elastic.HostInfo{ID: "a-1"}, AllocID: "a"}, `allocation "b" registers as "a"`},
		"another's host":     {Register{Info: elastic.HostInfo{ID: "a-1"}, AllocID: "b"}, `allocation "b" registers host "a-1", which is not its own`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := openSession(ctx, addr, n.transport("b").Client("lead"), silence)
			must.NoError(t, err)
			defer s.close()
			must.NoError(t, s.send(&ToLeader{Register: &c.r}))
			_, err = s.recv()
			must.ErrorContains(t, err, c.want)
		})
	}
}
