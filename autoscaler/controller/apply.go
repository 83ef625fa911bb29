// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// writersAtOnce is how many jobs are written to at the same time.
const writersAtOnce = 16

// write sends the plan: what gives first, then what takes.
func (a *Controller) write(ctx context.Context, v *cluster.View, plan planner.Plan) {
	index := make(map[planner.JobKey]int, len(v.Jobs))
	for i := range v.Jobs {
		index[v.Jobs[i].Key] = i
	}
	gives, takes := []planner.Action{}, []planner.Action{}
	for _, act := range plan.Actions {
		if act.To < act.From {
			gives = append(gives, act)
		} else {
			takes = append(takes, act)
		}
	}
	for _, batch := range [][]planner.Action{gives, takes} {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(writersAtOnce)
		for _, act := range batch {
			g.Go(func() error {
				i := index[act.Job]
				start := time.Now()
				done, err := a.writer.Apply(ctx, act, v.Facts[i], map[string]any{
					"cause": act.Cause, "from": act.From, "to": act.To, "agent": a.name(), "pool": v.Jobs[i].Pool,
				})
				a.wrote(act, done, err, time.Since(start))
				return nil
			})
		}
		_ = g.Wait() // errors are the jobs' own
	}
}

// untag lets go of jobs that were protected while they waited: those that have
// started or ended, and those that are left alone now or gone. (Nomad turns the
// switch off in a job that is stopped.)
func (a *Controller) untag(ctx context.Context, v *cluster.View) {
	waiting := map[planner.JobKey]bool{}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		waiting[j.Key] = j.Count() == 0 && j.Frozen == "" && !j.Stopped
	}
	release := map[planner.JobKey]*Record{}
	now := time.Now()
	a.mu.Lock()
	for k, r := range a.ledger.Jobs {
		if r.Tagged && !waiting[k] && !r.untagAt.After(now) {
			release[k] = r
		}
	}
	a.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writersAtOnce)
	for k, r := range release {
		g.Go(func() error {
			err := a.writer.Untag(ctx, k)
			if err != nil && cluster.Classify(err) != cluster.Stopped {
				a.log.Warn("a job stays protected from garbage collection", "job", k, "error", err, "retry_in", untagRetry)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			r.Tagged, r.untagAt = err != nil, time.Now().Add(untagRetry)
			return nil
		})
	}
	_ = g.Wait() // errors are the jobs' own
}

// untagRetry is how long a tag that could not be taken off is left.
const untagRetry = time.Minute

// wrote takes over what became of an action.
func (a *Controller) wrote(act planner.Action, done cluster.Written, err error, took time.Duration) {
	now := time.Now()
	a.mu.Lock()
	r := a.ledger.Jobs[act.Job]
	if r == nil {
		r = &Record{}
	}
	if done.Steps > 0 {
		r.LastIndex = done.Index
		for _, s := range act.Steps[:done.Steps] {
			if r.Counts == nil {
				r.Counts = map[string]int{}
			}
			r.Counts[s.Group] = s.To
		}
	}
	if act.Cause == planner.Keep {
		switch {
		case done.Tagged || done.Steps > 0:
			r.keepUntil = now.Add(jobGC)
		case err == nil:
			// The token may not tag, and it is too early for the other way.
			r.keepUntil = now.Add(a.cfg.Planner.KeepAlive + keepRetry)
		}
		if done.Tagged && !r.Tagged {
			r.Tagged, r.untagAt = true, time.Time{}
			a.saveSoon() // a tag that nobody knows of is never taken off
		}
	} else if done.Steps > 0 {
		r.LastChange = now
		if act.From > 0 {
			r.Resizes++
		}
		maps.DeleteFunc(r.GrowAfter, func(_ string, until time.Time) bool { return until.Before(now) })
		for _, g := range act.Stuck {
			if r.GrowAfter == nil {
				r.GrowAfter = map[string]time.Time{}
			}
			r.GrowAfter[g] = now.Add(a.cfg.Planner.PlacementRetry)
		}
	}
	if err == nil {
		r.retries, r.trouble = 0, ""
	} else {
		switch kind := cluster.Classify(err); {
		case errors.Is(err, cluster.ErrStale), kind == cluster.Conflict, kind == cluster.Gone, kind == cluster.Stopped:
		default:
			r.failed(now, kind, err)
		}
	}
	a.mu.Unlock()
	a.metrics.wrote(act, err, took)

	switch {
	case err == nil && act.Cause != planner.Keep:
		a.log.Info("resized", "job", act.Job, "from", act.From, "to", act.To, "cause", act.Cause, "reason", act.Reason)
		e := jobEvent("resize", act.Job)
		e.From, e.To, e.Cause, e.Reason = act.From, act.To, string(act.Cause), act.Reason
		a.event(e)
	case err == nil && !done.Tagged && done.Steps == 0:
		a.log.Debug("a waiting job needs no protection from garbage collection yet", "job", act.Job)
	case err == nil:
		a.log.Info("protected a waiting job from garbage collection", "job", act.Job, "by_tag", done.Tagged, "by_scale", done.Steps > 0)
	case errors.Is(err, cluster.ErrStale) || cluster.Classify(err) == cluster.Conflict:
		a.log.Debug("a job changed meanwhile; planning anew", "job", act.Job, "error", err)
		a.poke()
	case cluster.Classify(err) == cluster.Stopped:
		a.log.Info("not written: leadership ended", "job", act.Job)
	default:
		a.log.Warn("writing failed", "job", act.Job, "kind", cluster.Classify(err), "error", err)
		e := jobEvent("trouble", act.Job)
		e.From, e.To, e.Reason = act.From, act.To, err.Error()
		a.event(e)
	}
}

// keepRetry is when a job is looked at again that could not be tagged, and was
// too young to be protected by a scale.
const keepRetry = 30 * time.Minute

// reportsPerRound bounds how many jobs are told of their problems in one round,
// so that a tenant with thousands of them holds up no one else's.
const reportsPerRound = 20

// report tells users of problems with their jobs: each once, as long as the job
// has it and this agent runs.
func (a *Controller) report(ctx context.Context, aside []cluster.Aside) {
	has := map[planner.JobKey]bool{}
	for _, s := range aside {
		has[s.Key] = len(s.Problems) > 0
	}
	a.mu.Lock()
	maps.DeleteFunc(a.reported, func(k planner.JobKey, _ string) bool { return !has[k] })
	a.mu.Unlock()
	reports := 0
	for _, s := range aside {
		if s.Off || len(s.Problems) == 0 {
			continue
		}
		text := s.Problems.Text()
		a.mu.Lock()
		told := a.reported[s.Key] == text
		if !told && reports < reportsPerRound {
			a.reported[s.Key] = text
		}
		a.mu.Unlock()
		if told {
			continue
		}
		if reports++; reports > reportsPerRound {
			a.poke() // the others in the next
			return
		}
		a.log.Warn("job left alone", "job", s.Key, "problems", strings.ReplaceAll(text, "\n", " | "))
		e := jobEvent("problem", s.Key)
		e.Reason = text
		a.event(e)
		if err := a.writer.Report(ctx, s); err != nil {
			a.log.Warn("the job could not be told of its problems", "job", s.Key, "error", err)
		}
	}
}
