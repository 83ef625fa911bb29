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

// jitter returns a time between d/2 and d, so that agents that lost the leader at the same
// time do not all come back at once.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

// Follower keeps a host in session with one leader. A session ends when a certificate of
// its connection expires, so no peer stays connected without a valid identity. The Follower
// opens another session before that happens. The host then registers again, as after a
// broken session, but is in session all the time.
type Follower struct {
	// Open begins a session.
	Open func() (*HostEnd, error)
	// Attach runs a session until it ends.
	Attach func(*HostEnd) error
	Log    hclog.Logger
	// soonest is the shortest time before a session is renewed, renewSoonest by default.
	soonest time.Duration
}

// Follow keeps the host in session until ctx ends. It calls lost each time that the leader
// can't be reached, or the session ends and no other replaces it.
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
	// renewSoonest is the shortest time before a renewal. It is less than the clock
	// skew that is tolerated after the certificates' end.
	renewSoonest = 10 * time.Second
)

// stay attaches the host to the session, and to those that replace it, until one breaks. It
// returns the cause, after everything that it started has ended.
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
		case <-oldEnded: //nolint:errcheck // another one has replaced it
		case <-time.After(wire.HeartbeatTimeout):
			old.Close()
			<-oldEnded //nolint:errcheck // likewise
		}
	}
}

// start attaches the host to the session, and returns a channel with the session's result.
func (f *Follower) start(ctx context.Context, s *HostEnd) <-chan error {
	ended := make(chan error, 1)
	unhook := context.AfterFunc(ctx, s.Close)
	go func() {
		defer unhook()
		ended <- f.Attach(s)
	}()
	return ended
}

// next waits until s is due for renewal, and returns the session that replaces it. If s
// ends first, it returns nil and the cause.
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

// renewal returns the time for the renewal of a session that ends at until. It leaves a
// third to half of the remaining time for failed attempts.
func renewal(now, until time.Time, soonest time.Duration) time.Time {
	left := max(until.Sub(now), 0)
	return now.Add(max(left/2+rand.N(left/6+1), soonest))
}
