// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/slowdown"
)

// horizon bounds the remaining time, in seconds, for which the gain of a move counts,
// because trainings report their remaining work themselves.
const horizon = 24 * 3600

// addMobility sets, in the planner's jobs, which placements are known to be faster. For
// jobs that may be moved, it also sets the gain and the cost of a move. The caller holds
// c.mu.
func (c *Controller) addMobility(v *cluster.View, now time.Time) {
	var costs map[string]float64 // by pool
	rooms := slowdown.NewRooms(v.Nodes)
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		tree := v.Topologies[j.Pool]
		pool := c.cfg.Pool(j.Pool)
		if !pool.Aware || tree == nil || len(j.Groups) < 2 || j.Ratio != nil || !movable(j, now) {
			continue
		}
		h := c.job(j.Key)
		own, alike := c.history.Sensitivities(h.Job, kindKey(j.Key, f))
		var model *slowdown.Model
		if j.Locality != nil && (len(own.Points) > 0 || len(alike.Points) > 0) { // else it goes where others need it to
			model = slowdown.New(j, tree.Tree, whereOf(f), own, alike, rooms)
			j.Locality.Faster = model.Between
		}
		if pool.MaxMigrations == 0 || f.Running == 0 || j.HeldSpares() > 0 {
			continue
		}
		if costs == nil {
			costs = c.resizeCosts(v, now)
		}
		gap, measured := h.Gap(maxResizeCost)
		if !measured {
			gap = costs[j.Pool]
		}
		j.Mobility = &planner.Mobility{Remaining: min(h.Expected(f.Spec.TotalWork, f.Running), horizon), Gap: gap, After: h.MayMove(pool.MaxMigrations, now)}
		if model != nil {
			j.Mobility.Slowdown = model.FromNow
		}
	}
}

// whereOf returns how far apart a job's workers are, or nil if that is unknown.
func whereOf(f *cluster.Facts) *migrate.Crossing {
	if f.Where.Workers == 0 {
		return nil
	}
	return &f.Where.Crossing
}

// resizeCosts returns the costs of a resize by pool, as policies see them.
func (c *Controller) resizeCosts(v *cluster.View, now time.Time) map[string]float64 {
	costs := map[string]map[string][]float64{} // by pool and namespace
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if costs[j.Pool] == nil {
			costs[j.Pool] = map[string][]float64{}
		}
		if movable(j, now) {
			costs[j.Pool][j.Key.Namespace] = append(costs[j.Pool][j.Key.Namespace], c.job(j.Key).Costs...)
		}
	}
	out := map[string]float64{}
	for pool := range costs {
		out[pool] = resizeCost(costs[pool], c.cfg.Planner.ResizeCost.Seconds())
	}
	return out
}

// silentJoin is the shortest time after which workers of a training that does not report
// its ring count as joined.
const silentJoin = 10 * time.Second

// joined reports whether all present workers of a job train. The caller holds c.mu.
func (c *Controller) joined(j *job, of *planner.Job, f *cluster.Facts, now time.Time) bool {
	switch {
	case of.Alive() != of.Count():
		return false
	case j.Size == 0:
		// A new leader has not asked the training yet.
		since := j.LastChange
		if c.loadedAt.After(since) {
			since = c.loadedAt
		}
		return now.Sub(since) >= max(silentJoin, 2*c.cfg.Planner.Progress)
	}
	return !j.stale() && j.Size == of.Count()*ringSlots(f)
}

// stale reports whether the last progress report predates the job's last change. Until a
// newer report arrives, j.Size is the old ring's size.
func (j *job) stale() bool { return !j.askedAt.After(j.LastChange) }

// moved reports the outcome of a move of a job's workers. The caller holds c.mu.
func (c *Controller) moved(key identity.JobKey, o history.Outcome) {
	e := jobEvent("moved", key)
	var gaps []string
	for _, seconds := range history.KnownSeconds(o.Gaps) {
		gaps = append(gaps, fmt.Sprintf("%.2f", seconds))
	}
	e.Reason = fmt.Sprintf("a step takes %.3g s now", o.After)
	if o.Before > 0 {
		e.Reason = fmt.Sprintf("a step took %.3g s and takes %.3g s now: %+.0f %%, expected %+.0f %%", o.Before, o.After, 100*(o.After/o.Before-1), -100*o.Expected)
	}
	if len(gaps) > 0 {
		e.Reason += fmt.Sprintf("; its ring stood still for %s s", strings.Join(gaps, " and "))
	}
	c.log.Info("moved", "job", key, "reason", e.Reason)
	c.events = append(c.events, e)
}
