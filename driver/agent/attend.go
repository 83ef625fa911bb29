// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/discovery"
)

// attend keeps the host in session with another agent that leads.
func (a *remote) attend(ctx context.Context, now discovery.Leadership) {
	f := &follower{soonest: renewSoonest, attach: a.host.Attach, log: a.log, open: func() (*clientSession, error) {
		return openSession(ctx, now.Leader.Addr, a.transport.Client(now.Leader.AllocID), silence)
	}}
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		s, err := f.open()
		if err == nil {
			begin := time.Now()
			err = f.stay(ctx, s)
			if time.Since(begin) > time.Second {
				pause = 50 * time.Millisecond
			}
		}
		if ctx.Err() != nil {
			return
		}
		a.log.Info("session with the leader ended", "leader", now.Leader.AllocID, "error", err)
		a.elector.LeaderLost(now.Term)
		select {
		case <-ctx.Done():
		case <-time.After(jitter(pause)):
		}
	}
}

// jitter is between half of d and d: agents that lost the leader at once do not
// all come back at once.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

// follower renews a host's session with one leader. A session ends with the
// certificates of its connection, so that what no longer proves itself is not
// listened to. Another one takes its place before that: the host registers once
// more, as after a session that broke, but is never without one.
type follower struct {
	open   func() (*clientSession, error)
	attach func(session) error
	// soonest is the least time before a session is renewed.
	soonest time.Duration
	log     hclog.Logger
}

const (
	// renewRetry is the longest pause after a renewal that failed.
	renewRetry = 5 * time.Second
	// renewSoonest is the least time before a renewal. It is less than what
	// clocks may differ by, for which a session goes on after its certificates.
	renewSoonest = 10 * time.Second
)

// stay attaches the host to the session, and to those that take its place, until
// one breaks. It returns why, when nothing of it runs any more.
func (f *follower) stay(ctx context.Context, s *clientSession) error {
	ended := f.start(ctx, s)
	for {
		next, err := f.next(s, ended)
		if next == nil {
			return err
		}
		old, oldEnded := s, ended
		s, ended = next, f.start(ctx, next)
		// The leader closes a host's session when the host begins another.
		select {
		case <-oldEnded: //nolint:errcheck // another has taken its place
		case <-time.After(silence):
			old.close()
			<-oldEnded //nolint:errcheck // likewise
		}
	}
}

// start attaches the host to the session and returns how it ends.
func (f *follower) start(ctx context.Context, s *clientSession) <-chan error {
	ended := make(chan error, 1)
	unhook := context.AfterFunc(ctx, s.close)
	go func() {
		defer unhook()
		ended <- f.attach(s)
	}()
	return ended
}

// next opens the session that takes the place of s when it is time to, or
// returns nil and why s has ended.
func (f *follower) next(s *clientSession, ended <-chan error) (*clientSession, error) {
	due := time.NewTimer(time.Until(renewal(time.Now(), s.until, f.soonest)))
	defer due.Stop()
	for {
		select {
		case err := <-ended:
			return nil, err
		case <-due.C:
		}
		next, err := f.longer(s)
		if err == nil {
			return next, nil
		}
		f.log.Warn("the session with the leader is not renewed yet; it ends when a certificate expires", "error", err)
		due.Reset(jitter(renewRetry))
	}
}

// longer opens a session that lasts longer than s.
func (f *follower) longer(s *clientSession) (*clientSession, error) {
	next, err := f.open()
	if err != nil {
		return nil, err
	}
	if !next.until.After(s.until) {
		next.close()
		return nil, fmt.Errorf("another session would end at %s, too: Nomad has not renewed an identity", next.until)
	}
	return next, nil
}

// renewal is when to renew what ends at the time: with a third to half of what is
// left to spare for tries that fail.
func renewal(now, until time.Time, soonest time.Duration) time.Time {
	left := max(until.Sub(now), 0)
	return now.Add(max(left/2+rand.N(left/6+1), soonest))
}
