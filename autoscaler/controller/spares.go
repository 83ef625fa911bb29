// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"maps"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// spareState is what is known of a job's spares, beyond its history.
type spareState struct {
	answered bool      // the training has reported whether it takes spares
	takes    bool      // and it does
	given    time.Time // when the job last gave one back
	pending  time.Time // since when a spare waits for a place
	read     uint64    // JobModifyIndex at which they were read from Nomad
}

// separateSpares separates the spares of a view's jobs from the workers that train. changes
// holds the scaling events of jobs whose counts were changed by others, by index of v.Jobs. The
// caller holds c.mu.
func (c *Controller) separateSpares(v *cluster.View, changes map[int][]cluster.Change) {
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		var spares map[string]int
		if h := c.history.Jobs[j.Key]; h != nil && h.Created == f.Created {
			spares = h.Spares
		}
		if events, read := changes[i]; read {
			spares = cluster.Spares(events, f.Counts)
			if known := c.job(j.Key); known != nil {
				known.spares.read = f.Changed
			}
		}
		if len(spares) == 0 {
			continue
		}
		v.SeparateSpares(i, spares)
		f.Spares = map[string]int{}
		for g := range j.Groups {
			if group := &j.Groups[g]; group.Spare > 0 {
				f.Spares[group.Name] = group.Spare
				f.SparesRunning += len(group.Spares)
			}
		}
		if len(f.Spares) > 0 {
			f.Where = history.Where{} // it is not known which of the workers train
		}
	}
}

// noteSpares updates what is known of a job's spares. The caller holds c.mu.
func (j *job) noteSpares(of *planner.Job, f *cluster.Facts, now time.Time) {
	j.Spares = maps.Clone(f.Spares)
	if of.Alive() == 0 {
		j.spares.answered = false // its next start begins with new agents
	}
	switch {
	case of.HeldSpares() == f.SparesRunning:
		j.spares.pending = time.Time{}
	case j.spares.pending.IsZero():
		j.spares.pending = now
	}
	of.SpareGiven, of.SparesSince = j.spares.given, j.spares.pending
}

// lends reports whether a pool may lend a job a spare that it did not ask for.
func lends(pool *config.Pool, f *cluster.Facts) bool { return pool.SpareSlots > 0 && f.Spec.Lendable }

// lendSpares sets how many spares each job is to have: as many as it asks for, or one of those
// that its pool lends, if its training takes them, and if neither its queue nor its namespace
// would exceed a limit. A job never has more spares than workers, because more could never
// replace any. The caller holds c.mu.
func (c *Controller) lendSpares(v *cluster.View, wants []planner.Want, pools func(string) config.Pool) {
	var use map[limited]int
	v.Lends = map[string]int{}
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		pool, h, held := pools(j.Pool), c.job(j.Key), j.HeldSpares()
		v.Lends[j.Pool] = pool.SpareSlots
		asks := f.Spec.Spare
		if j.Lent = lends(&pool, f); j.Lent {
			asks = 1
		}
		asks = min(asks, j.Count())
		switch {
		case h == nil || asks == 0 || h.idleAction != "":
			continue
		case !h.spares.answered:
			j.Spare = min(asks, held)
			continue
		case !h.spares.takes:
			continue
		}
		if use == nil {
			use = slotsByLimit(v, wants, pools)
		}
		n := asks - held
		limits := limitsOf(pool, j, f)
		slots := max(1, f.SlotsOf(1))
		for of, limit := range limits {
			n = min(n, floorDiv(limit-use[of], slots))
		}
		n = max(n, -held)
		for of := range limits {
			use[of] += n * slots
		}
		j.Spare = held + n
	}
}

// floorDiv returns n/d, rounded down.
func floorDiv(n, d int) int {
	if n < 0 {
		return -((-n + d - 1) / d)
	}
	return n / d
}

// limited is a set of jobs whose slots are limited: those of a queue, of a namespace in a
// queue, or one job of these.
type limited struct{ pool, queue, namespace, job string }

// limitsOf returns the limits that apply to a job, in slots.
func limitsOf(pool config.Pool, j *planner.Job, f *cluster.Facts) map[limited]int {
	out := map[limited]int{}
	add := func(of limited, limit int) {
		if limit > 0 {
			out[of] = limit
		}
	}
	if pool.Tree == nil {
		return out
	}
	for name := cmp.Or(f.Queue, queue.Any); name != ""; name = pool.Queues[name].Parent {
		q, ns := pool.Queues[name], j.Key.Namespace
		if name == queue.Any { // each namespace is a queue
			add(limited{pool.Name, name, ns, ""}, q.Limit)
		} else {
			add(limited{pool.Name, name, "", ""}, q.Limit)
		}
		add(limited{pool.Name, name, "", j.Key.String()}, q.MaxJob)
		if caps := q.PerNamespace; caps != nil {
			add(limited{pool.Name, name, ns, ""}, caps.Limit)
			add(limited{pool.Name, name, ns, j.Key.String()}, caps.MaxJob)
		}
	}
	return out
}

// slotsByLimit returns the slots that jobs hold, or will hold by the policies' decisions, for
// each limit that applies to them.
func slotsByLimit(v *cluster.View, wants []planner.Want, pools func(string) config.Pool) map[limited]int {
	use := map[limited]int{}
	for i := range v.Jobs {
		j, f := &v.Jobs[i], &v.Facts[i]
		n := f.SlotsOf(max(j.Count(), wants[i].Count) + j.HeldSpares())
		for of := range limitsOf(pools(j.Pool), j, f) {
			use[of] += n
		}
	}
	for _, x := range v.Rigid {
		pool := pools(x.Pool)
		for name := cmp.Or(x.Queue, queue.Any); name != ""; name = pool.Queues[name].Parent {
			use[limited{x.Pool, name, "", ""}] += x.Slots
			use[limited{x.Pool, name, x.Key.Namespace, ""}] += x.Slots
		}
	}
	return use
}

// wroteSpares records the spares that were written with a group's count.
func (j *job) wroteSpares(group string, spares map[string]int, now time.Time) {
	n, stated := spares[group]
	if !stated {
		return
	}
	if n < j.Spares[group] {
		j.spares.given = now
	}
	if j.Spares == nil {
		j.Spares = map[string]int{}
	}
	j.Spares[group] = n
}
