// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// staleAfter is the age from which an old view is logged.
const staleAfter = time.Minute

// round observes, decides, plans and, if this autoscaler leads, writes. It returns the
// latest time for the next round.
func (c *Controller) round(ctx context.Context) (time.Time, error) {
	view, err := c.watcher.View(c.Config().Pool)
	if err != nil {
		return time.Time{}, err
	}
	changes := c.changes(ctx, view, c.drifted(view))

	c.mu.Lock()
	now := time.Now()
	if last := c.watcher.LastAnswer(); !last.IsZero() && now.Sub(last) > staleAfter+c.cfg.Nomad.Resync {
		c.log.Debug("deciding on an old view", "age", now.Sub(last))
	}
	c.observe(view, changes, now)
	settled, renewed := c.makeRoom(view, now), c.account(view, now)
	wants, wake := c.decideAll(view, now)
	wake = earliest(earliest(wake, settled), renewed)
	c.lendSpares(view, wants, c.cfg.Pool)
	plan := planner.Make(&view.Cluster, wants, now, c.cfg.Planner.Options)
	wake = earliest(wake, plan.RequeueAt)
	for i := range view.Jobs {
		if at := c.job(view.Jobs[i].Key).retryAt; at.After(now) {
			wake = earliest(wake, at)
		}
	}
	lead := c.leading()
	c.view = view
	if now.Sub(c.accounted) >= countUsageEvery {
		c.countUsage(now)
	}
	result := c.result(view, wants, &plan, lead, now)
	if lead {
		var at time.Time
		result.Ample, at = c.ample(view, wants, now)
		wake = earliest(wake, at)
	}
	c.status = report.Status(result)
	for i := range c.status.Jobs {
		c.noteLate(&c.status.Jobs[i], now)
	}
	c.decided = now
	c.recordSlots(view, now)
	events := c.events
	c.events = nil
	c.mu.Unlock()
	for _, e := range events {
		c.publish(e)
	}

	if lead {
		c.apply(ctx, view, plan)
		c.unprotect(ctx, view)
		c.report(ctx, view.Ineligible)
		c.tellBatches(ctx, view)
	}
	return wake, nil
}

// result returns the result of a round, for package report. The caller holds c.mu.
func (c *Controller) result(v *cluster.View, wants []planner.Want, plan *planner.Plan, lead bool, now time.Time) *report.Round {
	r := &report.Round{
		Config: c.cfg, Now: now, View: v, Wants: wants, Jobs: make([]report.Job, len(v.Jobs)), Plan: plan, History: c.history,
		Ledger: c.ledger, Policies: map[string]report.Policy{}, Expected: c.expected, Leading: lead, Paused: c.overrides.All,
	}
	for i := range v.Jobs {
		j := c.job(v.Jobs[i].Key)
		r.Jobs[i] = report.Job{Job: j.Job, WriteError: j.writeError, Paused: c.overrides.IsPaused(v.Jobs[i].Key), Idle: j.idle, IdleBy: j.idleBy, Straggler: j.stragglerNow(), KeepsBatch: j.batch.keeps, Hangs: j.hangs(v.Facts[i].Training())}
	}
	for name, p := range c.policies {
		r.Policies[name] = report.Policy{Line: p.line, Problem: p.problem}
	}
	return r
}

// makeRoom reserves slots for jobs that are not elastic. It returns the time for
// the next call; the zero time means never. The caller holds c.mu.
func (c *Controller) makeRoom(v *cluster.View, now time.Time) time.Time {
	for _, key := range c.loans.observe(v, now, &c.cfg.Planner.Options) {
		if !c.leading() {
			continue // another autoscaler has made the room
		}
		c.log.Warn("room was made for jobs that are not elastic, and Nomad placed none of them; elastic jobs have it for now",
			"pool", key.pool, "namespace", key.namespace, "placement_timeout", c.cfg.Planner.PlacementTimeout, "again_at", c.loans.of[key].paused)
	}
	c.loans.divided = divide(v, c.cfg.Pool, c.history, now)
	return c.loans.keep(v, now, &c.cfg.Planner.Options)
}

// decideAll returns the wants of the policies of all pools, and the time at which the first
// policy wants to be asked again. The caller holds c.mu.
func (c *Controller) decideAll(v *cluster.View, now time.Time) ([]planner.Want, time.Time) {
	wants := make([]planner.Want, len(v.Jobs))
	for i := range wants {
		wants[i] = undecided(&v.Jobs[i])
	}
	wake := now.Add(c.cfg.Planner.Tick)
	for _, name := range v.Pools() {
		if at := c.decide(v, name, wants, now); at.After(now) {
			wake = earliest(wake, at)
		}
	}
	return wants, wake
}

// earliest returns the earlier of two times; a zero b does not count.
func earliest(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
