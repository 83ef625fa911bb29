// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// requestsAtOnce is how many jobs are written or read at the same time.
const requestsAtOnce = 16

// apply writes the plan: shrinks first, then the growth that they make room for.
func (c *Controller) apply(ctx context.Context, v *cluster.View, plan planner.Plan) {
	index := make(map[identity.JobKey]int, len(v.Jobs))
	for i := range v.Jobs {
		index[v.Jobs[i].Key] = i
	}
	var shrinks, others []planner.Action
	for _, act := range plan.Actions {
		if act.To < act.From || act.Releases() {
			shrinks = append(shrinks, act)
		} else {
			others = append(others, act)
		}
	}
	undo := c.intend(ctx, v, index, plan)
	for _, batch := range [][]planner.Action{shrinks, others} {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(requestsAtOnce)
		for _, act := range batch {
			g.Go(func() error {
				i := index[act.Job]
				start := time.Now()
				done, err := c.writer.Apply(ctx, act, v.Facts[i], map[string]any{
					"cause": act.Cause, "from": act.From, "to": act.To, "autoscaler": c.Config().Name, "pool": v.Jobs[i].Pool,
				})
				c.applied(act, done, err, time.Since(start), undo[act.Job])
				return nil
			})
		}
		_ = g.Wait() // errors are the jobs' own
	}
}

// intend saves the moves that a plan begins before they are written, so that the next
// leader can complete them if this one dies. It returns functions that forget them, by job.
func (c *Controller) intend(ctx context.Context, v *cluster.View, index map[identity.JobKey]int, plan planner.Plan) map[identity.JobKey]func() {
	undo := map[identity.JobKey]func(){}
	c.mu.Lock()
	for _, act := range plan.Actions {
		if j := c.job(act.Job); j != nil && act.Moving != nil {
			undo[act.Job] = j.BeginMove(act.Moving, v.Jobs[index[act.Job]].Groups, time.Now())
		}
	}
	c.mu.Unlock()
	if len(undo) > 0 {
		c.save(ctx)
	}
	return undo
}

// applied records the result of an action and reports it. unmove forgets the move that the
// action begins, nil if it begins none.
func (c *Controller) applied(act planner.Action, done cluster.Written, err error, took time.Duration, unmove func()) {
	c.mu.Lock()
	j := c.job(act.Job)
	if j == nil {
		j = &job{Job: &history.Job{}}
	}
	c.note(j, act, done, err, time.Now())
	if unmove != nil && (errors.Is(err, cluster.ErrStale) || cluster.Classify(err) == cluster.Conflict) {
		unmove() // nothing was written; after other errors, the next view shows what was
	}
	c.mu.Unlock()
	c.metrics.wrote(act, done, err, took)
	c.announce(act, done, err)
}

// note records what was written, and whether a write failed. The caller holds c.mu.
func (c *Controller) note(j *job, act planner.Action, done cluster.Written, err error, now time.Time) {
	if done.Steps > 0 {
		j.LastIndex = done.Index
		for _, s := range act.Steps[:done.Steps] {
			if j.Counts == nil {
				j.Counts = map[string]int{}
			}
			j.Counts[s.Group] = s.To
			j.wroteSpares(s.Group, act.Spares, now)
		}
	}
	switch {
	case act.Cause == planner.Keep:
		c.noteProtection(j, done, err, now)
	case act.Cause == planner.Spare: // the ring stays as it is
	case done.Steps > 0:
		j.LastChange = now
		if j.IdleAt > 0 {
			c.saveSoon() // the next leader must know who set the count
		}
		if act.From > 0 {
			j.Resizes++
			j.Wrote(act.To, now)
		}
		maps.DeleteFunc(j.GrowAfter, func(_ string, until time.Time) bool { return until.Before(now) })
		for _, g := range act.Unplaced {
			if j.GrowAfter == nil {
				j.GrowAfter = map[string]time.Time{}
			}
			j.GrowAfter[g] = now.Add(c.cfg.Planner.PlacementRetry)
		}
	}
	switch class := cluster.Classify(err); {
	case err == nil:
		j.retries, j.writeError = 0, ""
	case errors.Is(err, cluster.ErrStale), class == cluster.Conflict, class == cluster.Gone, class == cluster.Stopped:
	default:
		j.failed(now, class, err)
	}
}

// announce logs and publishes the result of an action.
func (c *Controller) announce(act planner.Action, done cluster.Written, err error) {
	switch {
	case err == nil && len(act.Steps) == 0 && act.Moving != nil:
		c.log.Info("a move waits for others", "job", act.Job, "reason", act.Reason)
	case err == nil && act.Cause == planner.Spare:
		c.log.Info("spares changed", "job", act.Job, "spares", act.Spares, "reason", act.Reason)
	case err == nil && act.Cause != planner.Keep:
		c.log.Info("resized", "job", act.Job, "from", act.From, "to", act.To, "cause", act.Cause, "reason", act.Reason)
		e := jobEvent("resize", act.Job)
		e.From, e.To, e.Cause, e.Reason = act.From, act.To, string(act.Cause), act.Reason
		c.publish(e)
	case err == nil && !done.Tagged && done.Steps == 0:
		c.log.Debug("a waiting job needs no protection from garbage collection yet", "job", act.Job)
	case err == nil:
		c.log.Info("protected a waiting job from garbage collection", "job", act.Job, "by_tag", done.Tagged, "by_scale", done.Steps > 0)
	case errors.Is(err, cluster.ErrStale) || cluster.Classify(err) == cluster.Conflict:
		c.log.Debug("a job changed meanwhile; planning again", "job", act.Job, "error", err)
		c.poke()
	case cluster.Classify(err) == cluster.Stopped:
		c.log.Info("not written: leadership ended", "job", act.Job)
	default:
		c.log.Warn("writing failed", "job", act.Job, "class", cluster.Classify(err), "error", err)
		e := jobEvent("trouble", act.Job)
		e.From, e.To, e.Reason = act.From, act.To, err.Error()
		c.publish(e)
	}
}
