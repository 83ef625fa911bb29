// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// account adds the slots that queues held since the last round to their accounts. It
// returns the next time at which shares may change although nothing has happened, or the
// zero time if there is none. The caller holds c.mu.
func (c *Controller) account(v *cluster.View, now time.Time) (wake time.Time) {
	at := seconds(now)
	for name, l := range c.history.Queues {
		if tree := c.cfg.Pool(name).Tree; tree == nil || !tree.Remembers() {
			l.Charge(&queue.Layout{Nodes: make([]queue.Node, 1)}, nil, at, ledger.Longest) // what it remembers decays
		}
	}
	for _, name := range v.Pools() {
		pool := c.cfg.Pool(name)
		if pool.Tree == nil || !pool.Tree.Remembers() {
			continue
		}
		l, layout := c.history.Ledger(name), pool.Tree.Layout()
		use := heldByLeaf(v, &pool, func(i int) int { return layout.Leaf(v.Facts[i].Queue, v.Jobs[i].Key.Namespace) })
		layout.At(at)
		layout.Remember(l.Past())
		layout.Fit(capacity(v, name))
		l.Charge(layout, use, at, ledger.Longest)
		if next := l.Next(layout, at); next > 0 {
			wake = earliest(time.UnixMilli(int64(next*1000)+1), wake)
		}
	}
	return wake
}

// heldByLeaf returns the slots that the jobs of each leaf of a pool hold. leafOf returns
// the leaf of the job with an index.
func heldByLeaf(v *cluster.View, pool *config.Pool, leafOf func(int) int) (use []ledger.Use) {
	costs := map[string]float64{}
	costOf := func(w *planner.Worker) float64 {
		typ := ""
		if w.Node >= 0 && w.Bin >= 0 {
			typ = v.Nodes[w.Node].Bins[w.Bin].Type
		}
		if _, known := costs[typ]; !known {
			costs[typ] = pool.CostOf(typ)
		}
		return costs[typ]
	}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.Pool != pool.Name {
			continue
		}
		leaf := leafOf(i)
		for leaf >= len(use) {
			use = append(use, ledger.Use{})
		}
		for g := range j.Groups {
			spares := j.Groups[g].Spares
			if len(spares) > 0 && lends(pool, &v.Facts[i]) {
				spares = spares[1:] // its queue did not ask for the one that the pool lends
			}
			for _, w := range slices.Concat(j.Groups[g].Live, spares) {
				slots := j.Groups[g].Need.Slots
				use[leaf].Slots += slots
				use[leaf].Cost += float64(slots) * costOf(&w)
			}
		}
	}
	return use
}

// capacity returns the slots of a pool that elastic jobs may use or hold.
func capacity(v *cluster.View, pool string) (slots int) {
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Pool == pool && n.State == planner.Ready {
			for _, b := range n.Bins {
				slots += max(0, b.Slots)
			}
		}
	}
	return slots
}
