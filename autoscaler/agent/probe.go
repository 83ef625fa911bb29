// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// probesAtOnce is how many jobs are asked for their progress at the same time.
const probesAtOnce = 16

// silentProbe is how long a job is not asked again that has not answered for as
// long: its driver may be another. One that starts is not to wait for it.
const silentProbe = 30 * time.Second

// A silence is one of a job that does not answer.
type silence struct{ since, until time.Time }

// last makes the silence last until now, and says when to ask again.
func (s silence) last(now time.Time) silence {
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.since) >= silentProbe {
		s.until = now.Add(silentProbe)
	}
	return s
}

// probe asks running jobs for their progress, again and again.
func (a *Agent) probe(ctx context.Context) error {
	silent := map[planner.JobKey]silence{}
	for {
		every := a.Config().Planner.Progress
		if every == 0 {
			pause(ctx, time.Second)
		} else {
			pause(ctx, every)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if every == 0 {
			continue
		}
		a.probeAll(ctx, silent)
	}
}

type probed struct {
	key      planner.JobKey
	kind     string
	slots    int
	services []string
	known    string
	batch    bool
	version  uint64
	got      *cluster.Progress
	address  string
}

func (a *Agent) probeAll(ctx context.Context, silent map[planner.JobKey]silence) {
	now := time.Now()
	var all []*probed
	a.mu.Lock()
	if v := a.lastView; v != nil {
		for i := range v.Jobs {
			r := a.ledger.Jobs[v.Jobs[i].Key]
			if v.Facts[i].Running == 0 {
				delete(silent, v.Jobs[i].Key) // nobody to answer
				continue
			}
			if r == nil || len(v.Facts[i].Services) == 0 || silent[v.Jobs[i].Key].until.After(now) {
				continue
			}
			f := &v.Facts[i]
			all = append(all, &probed{
				key: v.Jobs[i].Key, kind: kindKey(v.Jobs[i].Key, f), slots: max(1, ringSlots(f)), services: f.Services, known: r.address, batch: f.Batch, version: f.Version,
			})
		}
	}
	a.mu.Unlock()

	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(probesAtOnce)
	for _, p := range all {
		g.Go(func() error {
			got, address, err := a.prober.Probe(ctx, p.key, p.services, p.known)
			if err != nil {
				a.log.Trace("a job did not tell its progress", "job", p.key, "error", err)
				return nil
			}
			p.got, p.address = got, address
			return nil
		})
	}
	_ = g.Wait() // a job that does not answer is no error

	changed := false
	a.mu.Lock()
	for _, p := range all {
		r := a.ledger.Jobs[p.key]
		if p.got == nil || r == nil {
			silent[p.key] = silent[p.key].last(now)
			if r != nil {
				r.address = ""
			}
			continue
		}
		delete(silent, p.key)
		before := slices.Clone(r.Points)
		r.address = p.address
		for _, g := range r.learn(p.got, p.slots, now) {
			a.metrics.gaps.Observe(g.GapSeconds)
			a.metrics.lost.Add(g.LostSteps)
		}
		if p.got.Complete && !r.Frozen && p.batch {
			// The training says so before Nomad has seen a worker end.
			r.Frozen, r.FrozenAt, r.Completed = true, p.version, now
			changed = true
		}
		a.ledger.teach(p.kind, before, r.Points, now)
		changed = changed || len(r.Points) != len(before)
	}
	for k := range silent {
		if a.ledger.Jobs[k] == nil {
			delete(silent, k)
		}
	}
	a.mu.Unlock()
	if changed {
		a.poke()
	}
}

// ringSlots is how many slots one worker has in the ring: its devices, or one
// where slots are made of CPU.
func ringSlots(f *cluster.Facts) int {
	if n := f.Spec.Groups[0].Devices; n > 0 {
		return n
	}
	return 1
}
