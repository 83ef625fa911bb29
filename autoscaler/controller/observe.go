// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// drifted returns the jobs whose counts changed since the last round, although the job is
// the same and this autoscaler did not write them, and those whose spares are not known.
func (c *Controller) drifted(v *cluster.View) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []int
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		h := c.history.Jobs[j.Key]
		known := h != nil && h.Created == f.Created
		changed := known && h.LastIndex != f.Changed
		// A count may be written again without its spares.
		unsure := changed && len(h.Spares) > 0 && c.job(j.Key).spares.read != f.Changed
		unread := !known && f.Running > 0 && (f.Spec.Spare > 0 || f.Spec.Lendable)
		if changed && !maps.Equal(h.Counts, f.Counts) || unsure || unread {
			out = append(out, i)
		}
	}
	return out
}

// changes reads the count changes of jobs from Nomad, by index into v.Jobs.
func (c *Controller) changes(ctx context.Context, v *cluster.View, index []int) map[int][]cluster.Change {
	if len(index) == 0 {
		return nil
	}
	out := map[int][]cluster.Change{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(requestsAtOnce)
	for _, i := range index {
		g.Go(func() error {
			changes, err := c.client.History(ctx, v.Jobs[i].Key)
			if err != nil {
				c.log.Warn("unknown whether a count was set by hand", "job", v.Jobs[i].Key, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			out[i] = changes
			return nil
		})
	}
	_ = g.Wait() // no job's changes fail the others
	return out
}

// observe updates the history, and sets the fields of the planner's jobs that depend on it.
// The caller holds c.mu.
func (c *Controller) observe(v *cluster.View, changes map[int][]cluster.Change, now time.Time) {
	dt := time.Duration(0)
	if !c.observed.IsZero() {
		dt = min(max(0, now.Sub(c.observed)), time.Minute)
	}
	c.observed = now
	c.separateSpares(v, changes)
	known := len(c.history.Jobs) > 0
	var kinds []string
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		h, completed := c.history.Observe(j.Key, &f.Observation, now, dt)
		if completed {
			c.completed(j, h, known)
			named := f.Spec.Kind != j.Key.ID
			c.history.LearnLength(kindKey(j.Key, f), named, h, f.Slots, now)
			c.history.LearnService(groupOf(j, f), named, h, now)
		}
		if ch, drifted := changes[i]; drifted {
			c.attribute(j.Key, f.Counts, h, ch, now)
		}
		h.Counts = maps.Clone(f.Counts)
		c.fill(j, f, now)
		c.reportIdle(j)
		c.reportStraggler(j, now)
		kinds = append(append(kinds, kindKey(j.Key, f)), groupOf(j, f).Keys()...)
	}
	c.addMobility(v, now)
	for i := range v.Ineligible {
		if h := c.history.Jobs[v.Ineligible[i].Key]; h != nil && v.Ineligible[i].Off {
			h.Submitted = time.Time{} // only another submission brings it back
			h.Move = nil
		}
	}
	c.history.Prune(kinds, now)
	maps.DeleteFunc(c.jobs, func(key identity.JobKey, _ *job) bool { return c.history.Jobs[key] == nil })
}

// attribute finds out who changed a job's counts. Counts that were set by hand are kept
// for a while.
func (c *Controller) attribute(key identity.JobKey, counts map[string]int, h *history.Job, changes []cluster.Change, now time.Time) {
	for group, n := range counts {
		same := n == h.Counts[group]
		if same && h.Spares[group] == 0 {
			continue
		}
		if cluster.SetByHand(changes, group, n) {
			h.ManualUntil, h.LastChange = now.Add(c.cfg.Planner.ManualHold), now
			c.log.Info("a count was set by hand; keeping it for a while", "job", key, "group", group, "count", n, "until", h.ManualUntil)
		} else if at := cluster.LastChange(changes, group); !same && at.After(h.LastChange) {
			// The last leader wrote the count, but could not save that it did.
			h.LastChange = at
		}
	}
}

// fill sets the fields of the planner's job from its history.
func (c *Controller) fill(j *planner.Job, f *cluster.Facts, now time.Time) {
	known := c.job(j.Key)
	known.noteSpares(j, f, now)
	j.Started, j.Incomplete = !known.FirstStart.IsZero(), !known.Whole
	j.LastChange, j.ManualUntil, j.PendingSince = known.LastChange, known.ManualUntil, known.PendingSince
	if f.Newest > known.gpus.newest {
		known.gpus = unusedGPUs{} // the GPUs of its new worker have not been read yet
	}
	known.noteIdle(c.cfg.Pool(j.Pool), j)
	c.noteFailure(known, j, f)
	known.BoundMove(now, c.cfg.Planner.MoveTimeout)
	if j.Moving = known.Moving(j.Groups); j.Moving != nil {
		j.Moving.Joined = c.joined(known, j, f, now)
	}
	for g := range j.Groups {
		j.Groups[g].GrowAfter = known.GrowAfter[j.Groups[g].Name]
	}
	switch {
	case known.Frozen:
		j.Frozen = "a worker has completed; scaling now would run completed workers again"
	case j.HoldReason != "":
	case known.completeUntil.After(now):
		j.Frozen = "its training reports that it is complete; waiting for Nomad to see a worker end"
	case c.overrides.IsPaused(j.Key):
		j.HoldReason = "paused by a user"
	case f.Failed:
		j.HoldReason = "all its workers have failed and Nomad does not restart them; register it again"
	case known.IdleAt > 0 && j.Count() == 0:
		j.HoldReason = "it was idle and is suspended; register or scale it to run it again"
	case known.retryAt.After(now):
		j.HoldReason = "a write failed, and is tried again later: " + known.writeError
	}
	if f.Batch && j.Count() == 0 && !known.Frozen && known.StoppedAt == 0 {
		if known.keepUntil.IsZero() {
			// Protect it early: someone may start a garbage collection by hand.
			known.keepUntil = now.Add(c.cfg.Planner.GCProtection + c.protectAfter)
		}
		j.KeepUntil = known.keepUntil
	} else {
		known.keepUntil = time.Time{}
	}
}

// noteFailure emits an event once all workers of a job have failed and Nomad does not restart
// them. It requires that this autoscaler has seen the job with workers: a job that just starts
// looks the same for a moment, and a job that failed long ago looks the same to an autoscaler
// that has just started. The caller holds c.mu.
func (c *Controller) noteFailure(known *job, j *planner.Job, f *cluster.Facts) {
	switch {
	case j.Alive() > 0:
		known.wasAlive = true
	case f.Failed && known.wasAlive:
		known.wasAlive = false
		e := jobEvent("failed", j.Key)
		e.From, e.To, e.Reason = j.Count(), j.Count(), "all its workers have failed, and Nomad does not restart them"
		c.events = append(c.events, e)
	}
}

// completed reports a completion. The caller holds c.mu.
func (c *Controller) completed(j *planner.Job, h *history.Job, known bool) {
	if known {
		c.metrics.completed(h)
	}
	e := jobEvent("complete", j.Key)
	e.From, e.To, e.Reason = j.Count(), j.Count(), "a worker has completed"
	c.events = append(c.events, e)
	c.saveSoon() // must not be forgotten
}
