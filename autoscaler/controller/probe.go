// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
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

// completeHold is for how long a job is left alone since its training last said
// that it is complete. Nomad sees a worker end within seconds, and that alone
// freezes a job for good: who answers at a port cannot be proven.
const completeHold = time.Minute

// probing is what is known of probes. The agent's lock guards it.
type probing struct {
	silent map[planner.JobKey]silence
	asked  map[planner.JobKey]bool // a probe is under way
}

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

// probe asks running jobs for their progress, again and again. A job that takes
// its time is not waited for: the others are asked again meanwhile.
func (a *Controller) probe(ctx context.Context) error {
	p := probing{silent: map[planner.JobKey]silence{}, asked: map[planner.JobKey]bool{}}
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	defer func() { _ = g.Wait() }() // a job that does not answer is no error
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
		for _, j := range a.toProbe(&p) {
			g.Go(func() error {
				a.probeOne(ctx, &p, j)
				return nil
			})
		}
	}
}

type probed struct {
	key      planner.JobKey
	kind     string
	slots    int
	services []string
	known    cluster.Endpoint
	batch    bool
}

// toProbe are the jobs to be asked now.
func (a *Controller) toProbe(p *probing) []probed {
	now := time.Now()
	var all []probed
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.lastView; v != nil {
		for i := range v.Jobs {
			r := a.ledger.Jobs[v.Jobs[i].Key]
			if v.Facts[i].Running == 0 {
				delete(p.silent, v.Jobs[i].Key) // nobody to answer
				continue
			}
			if r == nil || len(v.Facts[i].Services) == 0 || p.asked[v.Jobs[i].Key] || p.silent[v.Jobs[i].Key].until.After(now) {
				continue
			}
			p.asked[v.Jobs[i].Key] = true
			f := &v.Facts[i]
			if !a.watcher.Answers(v.Jobs[i].Key, r.endpoint) {
				r.endpoint = cluster.Endpoint{} // its port may be another's
			}
			all = append(all, probed{
				key: v.Jobs[i].Key, kind: kindKey(v.Jobs[i].Key, f), slots: max(1, ringSlots(f)), services: f.Services, known: r.endpoint, batch: f.Batch,
			})
		}
	}
	for k := range p.silent {
		if a.ledger.Jobs[k] == nil {
			delete(p.silent, k)
		}
	}
	return all
}

// probeOne asks one job, and takes over what it says.
func (a *Controller) probeOne(ctx context.Context, p *probing, j probed) {
	got, endpoint, err := a.prober.Probe(ctx, j.key, j.services, j.known)
	complete := err == nil && got.Complete && j.batch
	if complete {
		if why := a.prober.Confirm(ctx, j.key, j.services, endpoint, got); why != nil {
			a.log.Debug("not believed that a training is complete", "job", j.key, "why", why)
			complete = false
		}
	}
	now := time.Now() // a silence counts from the end of the probe
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(p.asked, j.key)
	r := a.ledger.Jobs[j.key]
	if err != nil || r == nil {
		a.log.Trace("a job did not tell its progress", "job", j.key, "error", err)
		p.silent[j.key] = p.silent[j.key].last(now)
		if r != nil {
			r.endpoint = cluster.Endpoint{}
		}
		return
	}
	delete(p.silent, j.key)
	before := r.points()
	r.endpoint = endpoint
	for _, g := range r.learn(got, j.slots, now) {
		a.metrics.gaps.Observe(g.GapSeconds)
		a.metrics.lost.Add(g.LostSteps)
	}
	after := r.points()
	changed := len(after) != len(before)
	if complete {
		// The training says so before Nomad has seen a worker end.
		changed = changed || !r.completeSays.After(now)
		r.completeSays = now.Add(completeHold)
	}
	a.ledger.teach(j.kind, before, after, now)
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
