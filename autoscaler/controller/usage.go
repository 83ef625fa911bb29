// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

const (
	// countUsageEvery is the shortest time between two counts.
	countUsageEvery = 5 * time.Second
	// saveUsageEvery is the time between two saves. Followers show the saved usage, so it
	// may be this old. If the leader dies, nothing is lost: the next leader continues from
	// what was saved.
	saveUsageEvery = 5 * time.Minute
)

// keepUsage keeps the account of usage during one term of leadership.
func (c *Controller) keepUsage(ctx context.Context) {
	for {
		l, lost, err := c.usage.Load(ctx, time.Now())
		if err == nil {
			if lost != nil {
				c.log.Warn("part of the account of usage is lost", "error", lost)
			}
			c.mu.Lock()
			c.ledger, c.used = l, report.NewUsed(l)
			c.mu.Unlock()
			break
		}
		if ctx.Err() == nil {
			c.log.Warn("the usage cannot be read; trying again", "error", err)
		}
		pause(ctx, 5*time.Second)
		if ctx.Err() != nil {
			return
		}
	}
	tick := time.NewTicker(saveUsageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second) // as in lead
			defer cancel()
			c.saveUsage(last)
			c.mu.Lock()
			c.ledger, c.used = nil, nil
			c.mu.Unlock()
			return
		case <-tick.C:
		}
		c.saveUsage(ctx)
	}
}

// saveUsage saves the account, archives days that are over, and deletes old ones.
func (c *Controller) saveUsage(ctx context.Context) {
	now := time.Now()
	c.mu.Lock()
	cfg := c.cfg.Usage
	c.countUsage(now)
	snap, err := store.EncodeUsage(c.ledger, now, cfg.Jobs)
	c.mu.Unlock()
	if err != nil {
		c.log.Warn("saving the usage failed", "error", err)
		return
	}
	if snap.Dropped > 0 {
		c.log.Warn("the saved usage omits jobs that do not fit; a change of leaders loses up to an hour of them", "dropped", snap.Dropped)
	}
	archived, err := c.usage.Save(ctx, snap, c.elector.Check)
	c.mu.Lock()
	for _, day := range archived {
		c.used.Close(c.ledger, day)
		c.ledger.Close(day)
	}
	c.mu.Unlock()
	if err == nil && len(archived) > 0 {
		err = c.usage.Forget(ctx, usage.DayOf(now)-usage.Day(cfg.KeepDays), c.elector.Check)
	}
	if err != nil && !errors.Is(err, leader.ErrNotLeading) {
		c.log.Warn("saving the usage failed", "error", err)
	}
}

// countUsage adds what jobs have used up to now to the account. The caller holds c.mu.
func (c *Controller) countUsage(now time.Time) {
	v := c.view
	if c.ledger == nil || v == nil || !c.leading() {
		return
	}
	c.accounted = now
	jobs := make([]usage.Job, 0, len(v.Jobs))
	for i := range v.Jobs {
		if j, ok := c.usageJob(v, i); ok {
			jobs = append(jobs, j)
		}
	}
	for i := range v.Ineligible {
		if j := &v.Ineligible[i]; j.Stopped { // Nomad turns the scaling of a stopped job off
			jobs = append(jobs, usage.Job{
				Key: j.Key, Pool: j.Pool, Queue: report.Queue(c.cfg.Pool(j.Pool), j.Key.Namespace, ""), Since: now, End: c.endOf(j.Key),
			})
		}
	}
	c.ledger.Account(now, jobs, func(yield func(usage.Alloc) bool) {
		more := true
		c.watcher.Allocations(c.cfg.Pool, func(a *cluster.Allocation) {
			more = more && yield(usage.Alloc(*a))
		})
	})
	c.used.Update(c.ledger)
}

// endOf returns how a job that is stopped ended.
func (c *Controller) endOf(key identity.JobKey) string {
	if h := c.history.Jobs[key]; h != nil && h.Frozen {
		return usage.Complete
	}
	return usage.Stopped
}

// usageJob returns what the account needs to know of a job in a view.
func (c *Controller) usageJob(v *cluster.View, i int) (out usage.Job, ok bool) {
	j, f := &v.Jobs[i], &v.Facts[i]
	h := c.job(j.Key)
	if h == nil {
		return out, false
	}
	out = usage.Job{
		Key: j.Key, Pool: j.Pool, Kind: f.Spec.Kind, Since: h.FirstSeen, Resizes: h.Resizes,
		Queue:   report.Queue(c.cfg.Pool(j.Pool), j.Key.Namespace, cmp.Or(f.Queue, f.Spec.Queue)),
		Waiting: f.Running == 0 && !h.Frozen && j.Frozen == "" && j.HoldReason == "" && !j.Stopped,
	}
	for _, g := range j.Groups {
		out.Spares += len(g.Spares) * g.Need.Slots
	}
	out.Suspended = out.Waiting && j.Started && j.Count() == 0
	switch {
	case h.Frozen:
		out.End = usage.Complete
	case f.Failed:
		out.End = usage.Failed
	case j.Stopped:
		out.End = usage.Stopped
	}
	return out, true
}

// usageReport converts a training's report for the account.
func usageReport(p *history.Progress) *usage.Report {
	r := &usage.Report{Size: p.Size}
	for size, t := range p.StepSeconds {
		if n, err := strconv.Atoi(size); err == nil {
			r.Steps = append(r.Steps, usage.Steps{Size: n, N: t.N, Seconds: t.Mean})
		}
	}
	for _, x := range p.Resizes {
		y := usage.Resize{Time: x.Time, From: x.From, To: x.To, Start: x.Cause == "start", Failure: x.Cause == "failure"}
		if x.GapSeconds != nil {
			y.Gap = *x.GapSeconds
		}
		if x.LostSteps != nil {
			y.Lost = *x.LostSteps
		}
		r.Resizes = append(r.Resizes, y)
	}
	return r
}

// Usage returns what jobs have used since the beginning of a day, in the order of days. On
// the leader it is up to date; other autoscalers return what was saved last.
func (c *Controller) Usage(ctx context.Context, first usage.Day) ([]usage.Row, error) {
	select { // one caller at a time: each reads hundreds of variables of Nomad at most
	case c.readingUsage <- struct{}{}:
		defer func() { <-c.readingUsage }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	reader := store.NewUsage(c.client.Client, c.Config().Leader.Namespace, nil)
	live, closed, most := c.liveUsage(first)
	if live == nil {
		l, _, err := reader.Load(ctx, time.Now()) // what is lost was logged by the leader
		if err != nil {
			return nil, err
		}
		live, closed = rowsSince(l, first, most), l.Closed
	}
	rows, err := reader.Days(ctx, first, closed-1)
	if err != nil {
		return nil, err
	}
	return slices.Concat(rows, live), nil
}

// liveUsage returns the rows that are not archived yet, and the first day that is not
// archived. The rows are nil if this autoscaler does not keep the account.
func (c *Controller) liveUsage(first usage.Day) (rows []usage.Row, closed usage.Day, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ledger == nil || !c.leading() {
		return nil, 0, c.cfg.Usage.Jobs
	}
	c.countUsage(time.Now())
	return rowsSince(c.ledger, first, c.cfg.Usage.Jobs), c.ledger.Closed, c.cfg.Usage.Jobs
}

// rowsSince returns the rows of a ledger since a day, folded in the same way as for the
// archive.
func rowsSince(l *usage.Ledger, first usage.Day, most int) []usage.Row {
	rows := []usage.Row{}
	for _, day := range l.Days() {
		if day >= first {
			rows = append(rows, usage.Fold(l.Day(day), most, 0)...)
		}
	}
	return rows
}
