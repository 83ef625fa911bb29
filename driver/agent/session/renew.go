// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// jitter is between half of d and d: agents that lost the leader at once do not
// all come back at once.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

// Follower keeps a host in session with one leader. A session ends with the
// certificates of its connection, so that what no longer proves itself is not
// listened to. Another one takes its place before that: the host registers once
// more, as after a session that broke, but is never without one.
type Follower struct {
	// Open begins a session.
	Open func() (*HostEnd, error)
	// Attach runs a session to its end.
	Attach func(*HostEnd) error
	Log    hclog.Logger
	// soonest is the least time before a session is renewed, renewSoonest by
	// default.
	soonest time.Duration
}

// Follow keeps the host in session until ctx ends. It calls lost each time that
// the leader could not be reached, or a session ended.
func (f *Follower) Follow(ctx context.Context, lost func(error)) {
	for pause := retrySoonest; ctx.Err() == nil; pause = min(2*pause, retryLatest) {
		s, err := f.Open()
		if err == nil {
			begin := time.Now()
			err = f.stay(ctx, s)
			if time.Since(begin) > retryLatest {
				pause = retrySoonest
			}
		}
		if ctx.Err() != nil {
			return
		}
		lost(err)
		select {
		case <-ctx.Done():
		case <-time.After(jitter(pause)):
		}
	}
}

const (
	// retrySoonest and retryLatest bound the pause before another session.
	retrySoonest, retryLatest = 50 * time.Millisecond, time.Second
	// renewRetry is the longest pause after a renewal that failed.
	renewRetry = 5 * time.Second
	// renewSoonest is the least time before a renewal. It is less than what
	// clocks may differ by, for which a session goes on after its certificates.
	renewSoonest = 10 * time.Second
)

// stay attaches the host to the session, and to those that take its place, until
// one breaks. It returns why, when nothing of it runs any more.
func (f *Follower) stay(ctx context.Context, s *HostEnd) error {
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
		case <-time.After(wire.HeartbeatTimeout):
			old.Close()
			<-oldEnded //nolint:errcheck // likewise
		}
	}
}

// start attaches the host to the session and returns how it ends.
func (f *Follower) start(ctx context.Context, s *HostEnd) <-chan error {
	ended := make(chan error, 1)
	unhook := context.AfterFunc(ctx, s.Close)
	go func() {
		defer unhook()
		ended <- f.Attach(s)
	}()
	return ended
}

// next opens the session that takes the place of s when it is time to, or
// returns nil and why s has ended.
func (f *Follower) next(s *HostEnd, ended <-chan error) (*HostEnd, error) {
	due := time.NewTimer(time.Until(renewal(time.Now(), s.until, cmp.Or(f.soonest, renewSoonest))))
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
		f.Log.Warn("the session with the leader is not renewed yet; it ends when a certificate expires", "error", err)
		due.Reset(jitter(renewRetry))
	}
}

// longer opens a session that lasts longer than s.
func (f *Follower) longer(s *HostEnd) (*HostEnd, error) {
	next, err := f.Open()
	if err != nil {
		return nil, err
	}
	if !next.until.After(s.until) {
		next.Close()
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
