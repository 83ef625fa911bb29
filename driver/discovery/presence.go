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

// ErrNotLive is why a true identity is refused: its allocation is not in the
// registry, and not about to leave.
var ErrNotLive = errors.New("identity of an allocation that is not live")

const (
	// readTimeout bounds the question to the registry while a peer waits. An
	// election's call has a second for everything.
	readTimeout = 400 * time.Millisecond
	// renewalGrace, and as long as Nomad could not be reached, is how long after
	// that certificates may be expired: tasks get no new identities meanwhile, and
	// then not at once. Nomad's client tries again after a pause that doubles, so
	// that the next try is at most as far away as the first that failed.
	renewalGrace = 2 * time.Minute
	// renewalPause is the longest of these pauses.
	renewalPause = time.Hour
)

// Presence knows which allocations are live. Use NewPresence and Run.
//
// Run follows the registry, which sends each change at once. A peer that the
// newest view does not name is looked for in one that is read after it has
// called, so that one that has found itself there is found here, too. Two things
// keep the registry's word from being the last. Nomad takes an allocation from the
// registry when it begins to stop it, and the allocation then has time to leave
// the ring, perhaps under a new leader. And the registry may not answer, which
// proves nothing about anyone. So an allocation that is not named is taken for
// one that leaves while its absence, up to the newest view, has lasted less than
// a window. It is counted from the last time that the allocation was known to be
// live:
//
//   - a view named it,
//   - Nomad signed the identity: it does so for allocations only that have not
//     ended,
//   - this agent saw its first view: what was before, it does not know.
//
// The last two do not hold for dispatched and periodic jobs. Their identities
// name the parent job, so a sibling's cannot be distinguished; only the registry
// can.
type Presence struct {
	source  registry.Registry
	jobID   string
	window  time.Duration
	now     func() time.Time
	reading chan struct{} // held by the one who asks

	mu    sync.Mutex
	view  registry.View // newest good one
	begun time.Time     // At of the first good one
	away  time.Time     // when the newest outage began; short ones in a row are one
	back  time.Time     // when it ended
	down  bool          // it has not
	grace time.Time     // until when peers may be without new identities
	seen  map[string]time.Time
}

// NewPresence returns the presence of a job's allocations. window is how long an
// allocation may take to leave once it is no longer registered.
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

// take notes what a view shows.
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

// noteOutage notes whether the registry answers. The caller holds p.mu.
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

// Check returns nil when the identity's allocation is live or may be leaving,
// else ErrNotLive.
func (p *Presence) Check(ctx context.Context, id Identity) error {
	now := p.now()
	if p.namedSince(id.AllocID, now.Add(-p.window)) {
		// It may have ended a moment ago, and would be let in as one that leaves.
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

// departing reports whether the registry names other allocations now and not
// this one. While it does not answer, that is not known of any.
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

// namedSince reports whether the newest view names the allocation, and was read
// after a time.
func (p *Presence) namedSince(allocID string, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, named := p.view.Find(allocID)
	return named && p.view.At.After(since)
}

// refresh sees to a view that is newer than a time, if the registry answers.
// Those who wait at once share a read.
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

// renewable reports whether peers could have renewed what has expired: the
// registry, which is where identities come from too, has answered for long enough.
func (p *Presence) renewable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.down && p.now().After(p.grace)
}
