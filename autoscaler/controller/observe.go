// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// jobGC is how long Nomad keeps a dead job by default (job_gc_threshold).
const jobGC = 4 * time.Hour

func counts(j *planner.Job) map[string]int {
	out := make(map[string]int, len(j.Groups))
	for _, g := range j.Groups {
		out[g.Name] = g.Count
	}
	return out
}

// remember brings the ledger up to date and gives the planner what only the
// past tells. The caller holds a.mu.
func (a *Controller) remember(v *cluster.View, histories map[int][]cluster.Change, now time.Time) {
	dt := time.Duration(0)
	if !a.lastTime.IsZero() {
		dt = min(max(0, now.Sub(a.lastTime)), time.Minute)
	}
	a.lastTime = now
	known := len(a.ledger.Jobs) > 0
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		r := a.ledger.Jobs[j.Key]
		if r == nil || r.Created != f.Created {
			r = &Record{Created: f.Created, FirstSeen: now, Submitted: f.Submitted, Counts: counts(j)}
			r.estimate(f, now)
			a.ledger.Jobs[j.Key] = r
		}
		if r.Submitted.IsZero() {
			r.Submitted = f.Submitted
		}
		wasFrozen := r.Frozen
		r.lastSeen = now
		r.observe(j, f, now, dt)
		if r.Frozen && !wasFrozen {
			a.completed(j, r, known)
		}
		if h, drift := histories[i]; drift {
			for g, n := range counts(j) {
				if n == r.Counts[g] {
					continue
				}
				if cluster.SetByHand(h, g, n) {
					r.HandUntil, r.LastChange = now.Add(a.cfg.Planner.HandHold), now
					a.log.Info("a count was set by hand; leaving it for a while", "job", j.Key, "group", g, "count", n, "until", r.HandUntil)
				} else if at := cluster.LastChange(h, g); at.After(r.LastChange) {
					// The leader before wrote it and could not save that.
					r.LastChange = at
				}
			}
		}
		r.Counts = counts(j)
		a.recall(j, f, r, now)
	}
	for i := range v.Aside {
		if r := a.ledger.Jobs[v.Aside[i].Key]; r != nil && v.Aside[i].Off {
			r.Submitted = time.Time{} // it takes another submission to come back
		}
	}
	a.ledger.keepKinds(v, now)
	for k, r := range a.ledger.Jobs {
		if r.lastSeen.IsZero() {
			r.lastSeen = now
		}
		if now.Sub(r.lastSeen) > forgetAfter {
			delete(a.ledger.Jobs, k)
		}
	}
}

// forgetAfter is how long a job that is gone is remembered.
const forgetAfter = time.Hour

// recall fills the planner's job with what the record knows.
func (a *Controller) recall(j *planner.Job, f *cluster.Facts, r *Record, now time.Time) {
	j.Started = !r.FirstStart.IsZero()
	j.LastChange, j.HandUntil, j.PendingSince = r.LastChange, r.HandUntil, r.pendingSince
	for g := range j.Groups {
		j.Groups[g].GrowAfter = r.GrowAfter[j.Groups[g].Name]
	}
	switch {
	case r.Frozen:
		j.Frozen = "a worker has completed; scaling now would run completed workers again"
	case j.Left != "":
	case r.completeSays.After(now):
		j.Frozen = "its training says that it is complete; waiting for Nomad to see a worker end"
	case a.control.paused(j.Key.Namespace + "/" + j.Key.ID):
		j.Left = "paused by a user"
	case f.Failed:
		j.Left = "all its workers have failed and Nomad gave it up; register it again"
	case r.retryAt.After(now):
		j.Left = "a write failed, and is tried again later: " + r.trouble
	}
	if f.Batch && j.Count() == 0 && !r.Frozen {
		if r.keepUntil.IsZero() {
			// A garbage collection by hand does not wait for hours.
			r.keepUntil = now.Add(a.cfg.Planner.KeepAlive + a.protectAfter)
		}
		j.KeepUntil = r.keepUntil
	} else {
		r.keepUntil = time.Time{}
	}
}

// completed tells of a completion. The caller holds a.mu.
func (a *Controller) completed(j *planner.Job, r *Record, known bool) {
	if known {
		a.metrics.completed(j.Key, r)
	}
	e := jobEvent("complete", j.Key)
	e.From, e.To, e.Reason = j.Count(), j.Count(), "a worker has completed"
	a.untold = append(a.untold, e)
	a.saveSoon() // must not be forgotten
}

// saveSoon has the ledger saved without waiting for its turn.
func (a *Controller) saveSoon() {
	select {
	case a.dump <- struct{}{}:
	default:
	}
}
