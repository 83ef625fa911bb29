// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"cmp"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// addUse adds to each pool what the jobs of each queue hold, and how many of them wait. A
// queue counts for those around it, too.
func addUse(s *api.Status, r *Round) {
	type key struct{ pool, queue string }
	used, waiting := map[key]int{}, map[key]int{}
	for i := range s.Jobs {
		js := &s.Jobs[i]
		f := &r.View.Facts[i]
		pool, held := r.Config.Pool(js.Pool), r.View.Jobs[i].LiveSlots()+f.SlotsOf(f.SparesRunning)
		for name := queueOf(pool, js); name != ""; name = pool.Queues[name].Parent {
			used[key{js.Pool, name}] += held
			if js.Waits != nil {
				waiting[key{js.Pool, name}]++
			}
		}
	}
	for _, x := range r.View.Rigid {
		pool := r.Config.Pool(x.Pool)
		for name := cmp.Or(x.Queue, queue.Any); name != ""; name = pool.Queues[name].Parent {
			used[key{x.Pool, name}] += x.Slots
		}
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		pool := r.Config.Pool(p.Name)
		add := func(name string) {
			at := key{p.Name, name}
			u := api.QueueUse{Queue: name, Used: used[at], Waiting: waiting[at]}
			if pool.Tree != nil && !pool.Tree.Plain() {
				u.Borrowed = max(0, u.Used-pool.Queues[name].Guarantee)
				addPast(&u, r, p.Name, pool.Queues[name])
			}
			p.Use = append(p.Use, u)
		}
		for _, q := range pool.Rules() {
			if q.Name != queue.Any {
				add(q.Name)
			}
		}
		add(queue.Any)
	}
}

// addPast adds what a queue used over time, if its share depends on it. Only the leader
// knows this.
func addPast(u *api.QueueUse, r *Round, pool string, q config.Queue) {
	if q.Name == "" || q.Name == queue.Any || !r.Leading {
		return // the namespaces of "*" are queues of their own
	}
	a := r.History.Queues[pool][queue.Key(q.Name)]
	if a == nil {
		a = &ledger.Account{}
	}
	if q.HalfLife > 0 {
		decayed := a.Decayed()
		u.Decayed = &decayed
	}
	if b := q.Budget; b != nil {
		until := time.Unix(int64(b.Per.End(float64(r.Now.Unix()))), 0).UTC()
		u.Budget = &api.BudgetUse{SlotHours: b.SlotHours, Used: a.Spent, Per: string(b.Per), Beyond: config.BeyondBorrow, Until: until}
		if b.Stop {
			u.Budget.Beyond = config.BeyondStop
		}
	}
}
