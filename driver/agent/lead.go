// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/leader/scaling"
	"github.com/kolo-nomad/kolo/driver/agent/session"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// follow keeps the host in session with the leader, and leads if elected.
func (a *agent) follow(ctx context.Context) {
	var (
		stop  = func() {}
		floor uint64
	)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case now, ok := <-a.elector.Leadership():
			if !ok {
				return
			}
			stop()
			stop = func() {}
			if now.Leader.AllocID == "" && !now.Self {
				continue
			}
			a.log.Info("leadership", "term", now.Term, "leader", now.Leader.AllocID, "self", now.Self)
			roundCtx, cancel := context.WithCancel(ctx)
			var round sync.WaitGroup
			round.Go(func() {
				if now.Self {
					floor = a.lead(roundCtx, now.Term, max(floor, a.elector.LastRing().Generation))
				} else {
					a.attend(roundCtx, now)
				}
			})
			stop = func() {
				cancel()
				round.Wait()
			}
		}
	}
}

// lead leads for one term, and returns the highest generation that may be in use. The
// agent's own host is in session through a pipe.
func (a *agent) lead(ctx context.Context, term, floor uint64) uint64 {
	for ctx.Err() == nil {
		l := leader.New(leader.Options{Config: a.config, Term: term, Floor: floor, Quorum: a.elector, Record: a.record,
			Framework: a.framework.Elastic, Exchange: a.framework.Exchange, Present: a.present, Address: a.address, PeerAuth: discovery.Authentication, Logger: a.log.Named("leader")})
		a.setLeader(l)
		runCtx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		up, down := wire.Pipe()
		a.watchScaling(runCtx, &wg, l)
		wg.Go(func() { _ = l.Serve(down) })
		wg.Go(func() { _ = a.host.Attach(up) })
		err := l.Run(runCtx)
		cancel()
		up.Close()
		wg.Wait()
		a.setLeader(nil)
		floor = max(floor, l.Spent())
		if err == nil || !errors.Is(err, leader.ErrRefused) {
			return floor
		}
		a.log.Warn("beginning again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return floor
}

// watchScaling informs the leader of the job's counts while ctx lasts. It returns once they were
// read for the first time, or can't be read.
func (a *agent) watchScaling(ctx context.Context, wg *sync.WaitGroup, l *leader.Leader) {
	if !a.framework.Elastic.LocalGaps || a.config.Restart.Mode == settings.ModeRestart {
		return
	}
	reader, err := scaling.New(a.config, nomadapi.Token{File: a.config.TokenFile, Env: "NOMAD_TOKEN"}, a.log.Named("scaling"))
	if err != nil {
		a.log.Debug("the job's counts can't be read", "error", err)
		return
	}
	ready := make(chan struct{})
	report := func(s scaling.Stated) {
		l.Scaled(s.Groups, !s.Denied)
		if s.BatchStated {
			l.KeepBatch(s.KeepBatch)
		}
	}
	wg.Go(func() { reader.Watch(ctx, report, func() { close(ready) }) })
	<-ready
}

// attendAgain is the pause between attempts to open a session with a leader that does not
// accept any yet.
const attendAgain = 20 * time.Millisecond

// attend keeps the host in session with another agent that leads.
func (a *agent) attend(ctx context.Context, now discovery.Leadership) {
	f := &session.Follower{
		Open: func() (*session.HostEnd, error) {
			return session.Open(ctx, now.Leader.Addr, a.transport.Client(now.Leader.AllocID), wire.HeartbeatTimeout)
		},
		Attach: func(s *session.HostEnd) error { return a.host.Attach(s) },
		Log:    a.log,
	}
	begun := time.Now()
	f.Follow(ctx, func(err error) {
		a.log.Info("session with the leader ended", "leader", now.Leader.AllocID, "error", err)
		if time.Since(begun) < time.Second {
			// The leader may be elected but not ready yet. The next attempt would fail as
			// fast, so wait.
			select {
			case <-ctx.Done():
			case <-time.After(attendAgain):
			}
		}
		a.elector.LeaderLost(now.Term)
	})
}

func (a *agent) current() *leader.Leader {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leader
}

func (a *agent) setLeader(l *leader.Leader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leader = l
}
