// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"context"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
)

// probesAtOnce bounds the concurrent probes of jobs that answered promptly last time. The
// same number of other jobs is probed at the same time, so that slow jobs delay only each
// other and new ones.
const probesAtOnce = 16

// silentProbe is the pause between two probes of a job that has not answered for as
// long: it may have another driver. Starting jobs are probed without this pause.
const silentProbe = 30 * time.Second

// completeHold is the time after a training reported completion in which its job does
// not change. Nomad notices the end of a worker within seconds, and only that end
// freezes the job for good, because a report may come from another process at the
// port.
const completeHold = time.Minute

// probes holds the state of probes by job. The controller's lock guards it.
type probes struct {
	silent map[identity.JobKey]silence
	asked  map[identity.JobKey]bool // a probe is under way
	prompt map[identity.JobKey]bool // the last answer came promptly
}

// silence is a period in which a job does not answer.
type silence struct{ since, until time.Time }

// extend returns the silence as lasting until now, with the time of the next request.
func (s silence) extend(now time.Time) silence {
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.since) >= silentProbe {
		s.until = now.Add(silentProbe)
	}
	return s
}

// probe asks running jobs for their progress, until the context ends.
func (c *Controller) probe(ctx context.Context) error {
	p := &probes{silent: map[identity.JobKey]silence{}, asked: map[identity.JobKey]bool{}, prompt: map[identity.JobKey]bool{}}
	var g errgroup.Group
	g.Go(func() error { return c.probeThose(ctx, p, true) })
	g.Go(func() error { return c.probeThose(ctx, p, false) })
	return g.Wait()
}

// probeThose probes either the jobs that answer promptly or the others, until ctx ends.
// It does not wait for a slow job before it probes others again.
func (c *Controller) probeThose(ctx context.Context, p *probes, prompt bool) error {
	var g errgroup.Group
	g.SetLimit(probesAtOnce)
	defer func() { _ = g.Wait() }() // a job that does not answer is no error
	for {
		every := c.Config().Planner.Progress
		pause(ctx, cmp.Or(every, time.Second))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if every == 0 {
			continue
		}
		for _, t := range c.probeTargets(p, prompt) {
			g.Go(func() error {
				c.probeJob(ctx, p, t)
				return nil
			})
		}
	}
}

// target is a job to be probed.
type target struct {
	key      identity.JobKey
	pool     string
	kind     string
	queue    string
	slots    int
	services []string
	known    cluster.Endpoint
	batch    bool
}

// probeTargets returns the jobs to ask now: those that answer promptly, or the others.
func (c *Controller) probeTargets(p *probes, prompt bool) []target {
	now := time.Now()
	var all []target
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.view; v != nil {
		for i := range v.Jobs {
			key, f := v.Jobs[i].Key, &v.Facts[i]
			j := c.job(key)
			if f.Running == 0 {
				delete(p.silent, key) // no worker can answer
				continue
			}
			if j == nil || len(f.Services) == 0 || p.prompt[key] != prompt || p.asked[key] || p.silent[key].until.After(now) {
				continue
			}
			p.asked[key] = true
			if !c.watcher.Answers(key, j.endpoint) {
				j.endpoint = cluster.Endpoint{} // its port may be another's
			}
			all = append(all, target{
				key: key, pool: v.Jobs[i].Pool, kind: kindKey(key, f), queue: f.Queue, slots: ringSlots(f), services: f.Services, known: j.endpoint, batch: f.Batch,
			})
		}
	}
	gone := func(k identity.JobKey) bool { return c.history.Jobs[k] == nil }
	maps.DeleteFunc(p.silent, func(k identity.JobKey, _ silence) bool { return gone(k) })
	maps.DeleteFunc(p.prompt, func(k identity.JobKey, _ bool) bool { return gone(k) })
	return all
}

// probeJob asks one job, and records its report.
func (c *Controller) probeJob(ctx context.Context, p *probes, t target) {
	asked := time.Now()
	got, endpoint, err := c.prober.Probe(ctx, t.key, t.services, t.known)
	complete := err == nil && got.Complete && t.batch
	if complete {
		if why := c.prober.Confirm(ctx, t.key, t.services, endpoint, got); why != nil {
			c.log.Debug("ignoring an unconfirmed report that a training is complete", "job", t.key, "why", why)
			complete = false
		}
	}
	now := time.Now() // a silence counts from the end of the probe
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(p.asked, t.key)
	if err == nil && c.prober.Prompt(now.Sub(asked)) {
		p.prompt[t.key] = true
	} else {
		delete(p.prompt, t.key)
	}
	j := c.job(t.key)
	if err != nil || j == nil {
		c.log.Trace("a job did not report its progress", "job", t.key, "error", err)
		p.silent[t.key] = p.silent[t.key].extend(now)
		if j != nil {
			j.endpoint, j.ranks = cluster.Endpoint{}, nil
		}
		return
	}
	delete(p.silent, t.key)
	j.endpoint = endpoint
	ring, stale := j.Size, j.stale()
	j.askedAt, j.ranks = asked, c.liveRanks(t.key, got)
	if c.ledger != nil {
		c.ledger.Report(t.key, usageReport(got), now)
	}
	c.hear(j, t, got, now)
	c.hearStall(j, t.key, got.Stall, j.training == nil, now)
	c.hearStraggler(j, t.key, got.Straggler, now)
	if takes := got.TakesSpares; !j.spares.answered || takes != j.spares.takes {
		j.spares.answered, j.spares.takes = true, takes
		if takes {
			c.poke() // it can have a spare now
		}
	}
	j.batch.keeps = got.KeepsBatch
	j.training = report.Training(got)
	j.series.Add(timeline.Sample{At: now, Size: got.Size, Step: got.Step, Samples: got.Samples, Loss: got.Loss})
	adapts := j.Adapts
	resizes, changed := c.history.Learn(j.Job, t.kind, got, t.slots, now)
	c.history.LearnAdapts(t.kind, t.queue, j.Job, now)
	changed = changed || adapts != j.Adapts
	for _, r := range resizes {
		j.series.Note(report.Mark(&r))
		if r.GapSeconds != nil {
			c.metrics.gaps.Observe(*r.GapSeconds)
		}
		if r.LostSteps != nil {
			c.metrics.lost.Add(*r.LostSteps)
		}
	}
	outcome, measured := j.MoveOutcome(got, t.slots)
	if measured {
		c.moved(t.key, outcome)
	}
	if changed || measured || j.Move != nil && (ring != j.Size || stale && !j.stale()) {
		c.poke() // the measured sizes changed, or a move can continue
	}
	if complete {
		// The training reports it before Nomad has seen a worker end.
		if !j.completeUntil.After(now) {
			c.poke()
		}
		j.completeUntil = now.Add(completeHold)
	}
}

// liveRanks returns the reported rank of each of a job's live allocations that has exactly
// one. A report may name any number of other allocations, which would only use memory.
func (c *Controller) liveRanks(key identity.JobKey, got *history.Progress) map[string]int {
	ranks, out := got.RankOf(), map[string]int{}
	for _, alloc := range c.watcher.Live(key, maps.Keys(ranks)) {
		out[alloc] = ranks[alloc]
	}
	return out
}

// ringSlots returns how many slots one worker has in the ring.
func ringSlots(f *cluster.Facts) int { return max(1, f.Spec.Holder().Slots) }
