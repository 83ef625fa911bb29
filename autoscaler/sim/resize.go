// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import "github.com/kolo-nomad/kolo/autoscaler/sim/trace"

// resize takes a job to n workers, or to as many as find a place. A job that cannot get its
// minimum gets nothing. The caller has advanced the job to now.
func (e *engine) resize(j *job, n int) {
	before := j.n
	per := max(1, j.PerWorker)
	switch {
	case n < before:
		e.remove(j, per, before-n)
	case n > before:
		added := e.put(j, per, n-before, n)
		if got := j.allowed(before + added); got < before+added {
			e.remove(j, per, before+added-got)
			n = got
		} else {
			n = before + added
		}
	}
	e.settle(j, before, n)
}

// put places more workers of a job that wants a number in all, as far as they find room,
// and returns how many it placed.
func (e *engine) put(j *job, per, more, want int) (added int) {
	switch e.cfg.Placement {
	case Nomad:
		return e.byNomad(j, per, more, want)
	case Aware, Migrate:
		return e.byStepTime(j, per, more)
	default:
		j.shares, added = e.cluster.grow(j.shares, j.typ, per, more)
		return added
	}
}

// remove removes a number of workers of a job.
func (e *engine) remove(j *job, per, fewer int) {
	if e.aware() {
		e.leave(j, per, fewer)
		return
	}
	j.shares = e.cluster.shrink(j.shares, per, fewer)
}

// settle updates a job whose number of workers may have changed.
func (e *engine) settle(j *job, before, n int) {
	if n == before {
		return
	}
	j.at = e.now
	j.n = n
	j.changed = e.now
	j.committed = j.left
	if n > 0 {
		j.place(e)
		j.gapEnd = e.now + e.cfg.Resize.Gap(n)
		switch {
		case !j.started:
			j.started, j.result.Start, j.resized = true, e.now, e.now
		case j.resized != e.now: // changes of one instant are one resize
			j.result.Resizes++
			j.resized = e.now
		}
	}
	e.schedule(j)
	if v := e.viewOf(j); v != nil {
		v.Count, v.LastChange, v.FirstStart, v.Resizes = n, e.now, j.result.Start, j.result.Resizes
		v.Held = ""
		if n > 0 {
			v.Held = e.cluster.types[j.typ]
			e.showCurve(j, v)
		}
	}
	if e.cfg.History {
		c := Change{Time: e.now, Workers: n, GPUs: j.gpus()}
		if last := len(j.result.History) - 1; last >= 0 && j.result.History[last].Time == e.now {
			j.result.History[last] = c
		} else {
			j.result.History = append(j.result.History, c)
		}
	}
}

// stepTime returns how long a step of the job takes where its workers are.
func (e *engine) stepTime(j *job) float64 {
	at := j.shares
	e.parts = e.parts[:0]
	for _, p := range at {
		e.parts = append(e.parts, p.Workers)
	}
	return j.timeOn(e.parts) / e.speed(j.typ) * e.apart(j, at)
}

func (e *engine) speed(typ int) float64 {
	if s, ok := e.cfg.Speed[e.cluster.types[typ]]; ok && s > 0 {
		return s
	}
	return 1
}

// scattered reports whether the job is on more nodes than it needs.
func (e *engine) scattered(j *job) bool {
	return len(j.shares) > 1 && len(j.shares) > e.cluster.fewest(j.typ, max(1, j.PerWorker), j.n)
}

// clusterEvents handles events of nodes.
func (e *engine) clusterEvents() {
	for ; e.happened < len(e.events) && e.events[e.happened].Time <= e.now; e.happened++ {
		ev := e.events[e.happened]
		i := e.cluster.index[ev.Node]
		if e.cluster.nodes[i].up == (ev.Kind == trace.NodeUp) {
			continue // is so already
		}
		if ev.Kind == trace.NodeUp {
			e.cluster.raise(i)
		} else {
			e.evict(i, ev.Kind == trace.NodeDown)
			e.cluster.lower(i)
		}
		e.change()
	}
}

// evict removes all workers from a node. Jobs that keep their minimum elsewhere go on
// without them; others are suspended. After a failure, jobs go back to their last commit.
func (e *engine) evict(node int, failed bool) {
	for _, j := range e.active {
		at := -1
		for k := range j.shares {
			if j.shares[k].Node == node {
				at = k
			}
		}
		if at < 0 {
			continue
		}
		e.advance(j)
		if failed {
			e.result.Lost += j.rollback(e.cfg.Commit) * float64(j.gpus())
		}
		per := max(1, j.PerWorker)
		before, gone := j.n, j.shares[at].Workers
		e.cluster.take(node, -gone*per)
		j.shares = append(j.shares[:at], j.shares[at+1:]...)
		n := j.allowed(before - gone)
		e.remove(j, per, before-gone-n)
		e.settle(j, before, n)
	}
}
