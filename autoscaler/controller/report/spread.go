// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/slowdown"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// spreadOf returns how far apart the workers of a job are and what that costs it. It returns
// nil in a pool without a topology, or if nothing is known.
func spreadOf(r *Round, job int) *api.Spread {
	j, f := &r.View.Jobs[job], &r.View.Facts[job]
	pool, tree := r.Config.Pool(j.Pool), r.View.Topologies[j.Pool]
	if !pool.Aware || tree == nil {
		return nil
	}
	own, alike := r.History.Sensitivities(r.Jobs[job].Job, history.KindKey(j.Key, f.Spec.Kind))
	out := &api.Spread{Workers: f.Where.Workers, Crossing: f.Where.Crossing, Costs: crossingCosts(tree.Tree, own)}
	if out.Costs == nil {
		out.Costs = crossingCosts(tree.Tree, alike)
		for i := range out.Costs {
			cost := &out.Costs[i]
			cost.OfKind, cost.StepTime, cost.Than.StepTime = true, 0, 0 // those are multiples
		}
	}
	if out.Workers == 0 && out.Costs == nil {
		return nil
	}
	return out
}

// crossingCosts compares the measured times of each size with that of the workers closest
// together.
func crossingCosts(tree *topology.Tree, s *migrate.Sensitivity) []api.CrossingCost {
	inside := func(c migrate.Crossing) int { // -1 if the operator has removed the level
		if c.Level == "" {
			return len(tree.Levels())
		}
		return tree.Level(c.Level)
	}
	points := slices.DeleteFunc(s.Outermost(), func(p migrate.Point) bool { return inside(p.Crossing) < 0 || !(p.StepTime > 0) })
	slices.SortFunc(points, func(a, b migrate.Point) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(inside(b.Crossing), inside(a.Crossing)), cmp.Compare(a.Domains, b.Domains))
	})
	var out []api.CrossingCost
	closest := 0
	for i, p := range points {
		if points[closest].Size != p.Size {
			closest = i
		}
		than := points[closest]
		ratio := p.StepTime / than.StepTime
		if i == closest || !slowdown.Believed(ratio) {
			continue
		}
		out = append(out, api.CrossingCost{
			Size: p.Size, Slowdown: ratio,
			SpreadTime: api.SpreadTime{Crossing: p.Crossing, StepTime: p.StepTime},
			Than:       api.SpreadTime{Crossing: than.Crossing, StepTime: than.StepTime},
		})
	}
	return out
}
