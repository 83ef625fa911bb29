// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// addEntitled adds to each queue the reasons why its jobs wait and, in a divided pool, the
// slots that the queue is entitled to and those that it lends.
func addEntitled(s *api.Status, r *Round) {
	for i := range s.Pools {
		p := &s.Pools[i]
		pool := r.Config.Pool(p.Name)
		reasons := reasonsByQueue(s, p.Name, pool)
		var shares map[string]int
		if pool.Tree != nil && !pool.Tree.Plain() {
			shares = entitled(r, p.Name, pool.Tree)
		}
		borrows := false
		for k := range p.Use {
			p.Use[k].Reasons = reasons[p.Use[k].Queue]
			borrows = borrows || p.Use[k].Borrowed > 0
		}
		for k := range p.Use {
			if u := &p.Use[k]; shares != nil {
				n := shares[u.Queue]
				u.Entitled = &n
				if borrows {
					u.Lent = max(0, pool.Queues[u.Queue].Guarantee-u.Used)
				}
			}
		}
	}
}

// reasonsByQueue counts the waiting jobs of a pool by queue and reason.
func reasonsByQueue(s *api.Status, name string, pool config.Pool) map[string]map[waiting.Reason]int {
	out := map[string]map[waiting.Reason]int{}
	for i := range s.Jobs {
		js := &s.Jobs[i]
		if js.Pool != name || js.Waits == nil {
			continue
		}
		for q := queueOf(pool, js); q != ""; q = pool.Queues[q].Parent {
			if out[q] == nil {
				out[q] = map[waiting.Reason]int{}
			}
			out[q][js.Waits.Reason]++
		}
	}
	return out
}

// entitled returns the number of slots that each queue gets when the pool is divided, given
// what its jobs can use now. Jobs in no queue count for "*".
func entitled(r *Round, name string, tree *queue.Tree) map[string]int {
	layout, slots := tree.Layout(), 0
	for i := range r.View.Nodes {
		if n := &r.View.Nodes[i]; n.Pool == name && n.State == planner.Ready {
			for _, b := range n.Bins {
				slots += max(0, b.Slots)
			}
		}
	}
	for _, x := range r.View.Rigid {
		if x.Pool == name {
			slots += x.Slots
		}
	}
	demand := DemandOf(r.View, name, layout, r.Now)
	layout.At(float64(r.Now.UnixMilli()) / 1000)
	layout.Remember(r.History.Queues[name].Past())
	layout.Fit(slots)
	out := map[string]int{}
	for n, share := range layout.Divide(slots, demand) {
		if n == 0 {
			continue // the pool
		}
		parent := layout.Nodes[n].Parent
		switch of := layout.Queue(n); {
		case of == "" && parent == 0:
			out[queue.Any] += share
		case of != layout.Queue(parent):
			out[of] = share // not a namespace inside a queue
		}
	}
	return out
}
