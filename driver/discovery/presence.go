// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// ErrNotLive means that a genuine identity is refused because its allocation is
// neither in the registry nor about to leave.
var ErrNotLive = errors.New("identity of an allocation that is not live")

const (
	// readTimeout bounds the registry read that a peer waits for. A call of an
	// election has one second in all.
	readTimeout = 400 * time.Millisecond
	// renewalGrace is how long expired certificates are tolerated after an outage
	// of Nomad, in addition to the length of the outage itself. Tasks get no new
	// identities during an outage, nor right after it: Nomad's client retries with
	// a doubling pause, so the next try is at most as far away as the first failed
	// one.
	renewalGrace = 2 * time.Minute
	// renewalPause is the longest of these pauses.
	renewalPause = time.Hour
)

// Presence knows which allocations are live. Use NewPresence and Run.
//
// Run follows the registry, which sends each change at once. If the newest view
// does not list a calling peer, Presence reads the registry again, because the peer
// may just have been registered. A peer that is still not listed may have to be
// admitted nevertheless. When Nomad begins to stop an allocation, it first removes
// it from the registry, and then gives it time to leave the ring, perhaps under a
// new leader. Or the registry may not answer. So an allocation that is not listed
// counts as leaving, and is admitted, until it has been missing for the length of a
// window. This time is measured up to the newest view, from the latest of these
// events:
//
//   - a view listed it,
//   - Nomad signed its identity, which it does only for allocations that have not
//     ended,
//   - this agent saw its first view, because it knows nothing of the time before.
//
// For dispatched and periodic jobs only the first event counts. Their identities
// name the parent job, so only the registry can tell siblings apart.
type Presence struct {
	source  registry.Registry
	jobID   string
	window  time.Duration
	now     func() time.Time
	reading chan struct{} // held while one caller reads

	mu    sync.Mutex
	view  registry.View // last successful one
	begun time.Time     // At of the first successful one
	away  time.Time     // start of the newest outage; short ones in a row count as one
	back  time.Time     // its end
	down  bool          // it has not ended
	grace time.Time     // until when peers may lack new identities
	seen  map[string]time.Time
}

// NewPresence returns the presence of a job's allocations. window is how long an
// allocation may take to leave after it was deregistered.
func NewPresence(r registry.Registry, jobID string, window time.Duration) *Presence {
	return &Presence{source: r, jobID: jobID, window: window, now: time.Now,
		reading: make(chan struct{}, 1), seen: make(map[string]time.Time)}
}

// Run follows the registry until ctx ends.
func (p *Presence) Run(ctx context.Context) {
	for v := range p.source.Watch(ctx) {
		p.take(v)
	}
}

// take records what a view shows.
func (p *Presence) take(v registry.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteOutage(v.Err)
	if v.Err != nil {
		return
	}
	if v.At.Before(p.view.At) {
		return
	}
	if p.begun.IsZero() {
		p.begun = v.At
	}
	p.view = v
	for _, peer := range v.Peers {
		p.seen[peer.AllocID] = v.At
	}
	for alloc, at := range p.seen {
		if v.At.Sub(at) > p.window {
			delete(p.seen, alloc)
		}
	}
}

// noteOutage records whether the registry answers. The caller holds p.mu.
func (p *Presence) noteOutage(err error) {
	now := p.now()
	switch {
	case err != nil:
		if !p.down && now.Sub(p.back) > renewalGrace {
			p.away = now
		}
	case p.down:
		p.back = now
		if end := now.Add(renewalGrace + min(now.Sub(p.away), renewalPause)); end.After(p.grace) {
			p.grace = end
		}
	}
	p.down = err != nil
}

// Check returns nil if the identity's allocation is live or may be leaving, else
// ErrNotLive.
func (p *Presence) Check(ctx context.Context, id Identity) error {
	now := p.now()
	if p.namedSince(id.AllocID, now.Add(-p.window)) {
		// It may have ended a moment ago, but would then be admitted as leaving.
		return nil
	}
	p.refresh(ctx, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, named := p.view.Find(id.AllocID); named {
		return nil
	}
	live := p.seen[id.AllocID]
	if id.JobID == p.jobID {
		for _, t := range []time.Time{id.Issued, p.begun} {
			if t.After(live) {
				live = t
			}
		}
	}
	if absent := p.view.At.Sub(live); live.IsZero() || absent > p.window {
		return fmt.Errorf("%w: allocation %s of job %q is not registered; it may be so for %s while it leaves", ErrNotLive, id.AllocID, p.jobID, p.window)
	}
	return nil
}

// departing reports whether the registry lists other allocations now but not this
// one. It returns false if the registry does not answer.
func (p *Presence) departing(ctx context.Context, allocID string) bool {
	now := p.now()
	if p.namedSince(allocID, time.Time{}) {
		return false
	}
	p.refresh(ctx, now)
	p.mu.Lock()
	fresh := !p.down && p.view.At.After(now)
	p.mu.Unlock()
	return fresh && !p.namedSince(allocID, time.Time{})
}

// namedSince reports whether the newest view lists the allocation and was read
// after the given time.
func (p *Presence) namedSince(allocID string, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, named := p.view.Find(allocID)
	return named && p.view.At.After(since)
}

// refresh reads the registry unless the view is newer than the given time.
// Concurrent callers share one read.
func (p *Presence) refresh(ctx context.Context, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	select {
	case p.reading <- struct{}{}:
		defer func() { <-p.reading }()
	case <-ctx.Done():
		return
	}
	p.mu.Lock()
	enough := p.down || p.view.At.After(since)
	p.mu.Unlock()
	if enough {
		return
	}
	if v := p.source.Read(ctx); v.Err == nil {
		p.take(v)
	}
}

// renewable reports whether peers have had time to renew an expired identity: the
// registry, which answers from the same Nomad that issues identities, has been
// reachable for long enough.
func (p *Presence) renewable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.down && p.now().After(p.grace)
}
