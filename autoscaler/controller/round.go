// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// round looks, decides, plans, and writes where this agent leads. It returns
// when to make the next one at the latest.
func (a *Controller) round(ctx context.Context) (time.Time, error) {
	view, err := a.watcher.View(a.Config().Pool)
	if err != nil {
		return time.Time{}, err
	}
	drifted := a.drifted(view)
	histories := a.histories(ctx, view, drifted)

	a.mu.Lock()
	now := time.Now()
	wake := now.Add(a.cfg.Planner.Tick)
	if !a.watcher.LastAnswer().IsZero() && now.Sub(a.watcher.LastAnswer()) > staleAfter+a.cfg.Nomad.Resync {
		a.log.Debug("deciding on an old view", "age", now.Sub(a.watcher.LastAnswer()))
	}
	a.remember(view, histories, now)
	a.makeRoom(view)
	wants := make([]planner.Want, len(view.Jobs))
	for i := range wants {
		wants[i].Count = view.Jobs[i].Count()
	}
	for _, name := range poolNames(view) {
		if at := a.decide(view, name, wants, now); !at.IsZero() && at.After(now) && at.Before(wake) {
			wake = at
		}
	}
	plan := planner.Make(&view.Cluster, wants, now, a.cfg.Planner.Options)
	if !plan.Wake.IsZero() && plan.Wake.Before(wake) {
		wake = plan.Wake
	}
	for _, j := range view.Jobs {
		if at := a.ledger.Jobs[j.Key].retryAt; at.After(now) && at.Before(wake) {
			wake = at
		}
	}
	lead := a.leading()
	a.status = a.describe(view, wants, plan, lead, now)
	a.lastView, a.decided = view, now
	untold := a.untold
	a.untold = nil
	a.mu.Unlock()
	for _, e := range untold {
		a.event(e)
	}

	if lead {
		a.write(ctx, view, plan)
		a.untag(ctx, view)
		a.report(ctx, view.Aside)
	}
	return wake, nil
}

// staleAfter is how old a view may be before it is worth a word.
const staleAfter = time.Minute

func poolNames(v *cluster.View) []string {
	names := map[string]bool{}
	for i := range v.Nodes {
		names[v.Nodes[i].Pool] = true
	}
	for i := range v.Jobs {
		names[v.Jobs[i].Pool] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// drifted are the jobs whose counts are not what was last seen, though the
// job is the same and this agent did not write them.
func (a *Controller) drifted(v *cluster.View) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []int
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		r := a.ledger.Jobs[j.Key]
		if r != nil && r.Created == f.Created && r.LastIndex != f.Changed && !maps.Equal(r.Counts, counts(j)) {
			out = append(out, i)
		}
	}
	return out
}

func (a *Controller) histories(ctx context.Context, v *cluster.View, index []int) map[int][]cluster.Change {
	if len(index) == 0 {
		return nil
	}
	out := map[int][]cluster.Change{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writersAtOnce)
	for _, i := range index {
		g.Go(func() error {
			h, err := a.client.History(ctx, v.Jobs[i].Key)
			if err != nil {
				a.log.Warn("cannot tell whether a count was set by hand", "job", v.Jobs[i].Key, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			out[i] = h
			return nil
		})
	}
	_ = g.Wait() // no job's history fails the others
	return out
}
