// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// loans is the room that is lent to jobs which are not elastic.
//
// Whether Nomad will place a job into it is known afterwards only: volumes, ports and
// quotas are not read. So room is lent, and for idle room a namespace pays:
//
//	            its jobs wait                 room idle for PlacementTimeout
//	no room ───────────────────> room made ──────────────────────────────> paused
//	   ^                            │  ^                                      │
//	   └────────────────────────────┘  └──────────────────────────────────────┘
//	        all of them were placed         after a pause, longer each time
//
// Time counts by the part of a job's room that is free: half of the room for a minute is
// all of it for half a minute. While too few slots are free for a worker, since others
// still leave theirs, it counts a quarter. It counts until the workers are placed. A job that goes without them leaves its time on
// the account of its namespace: neither another name nor registering it again gives it
// back. An account is forgotten after twice the longest pause without waste.
type loans struct {
	at time.Time // of the last observation
	of map[loanKey]*loan
}

type loanKey struct{ pool, namespace string }

// loan is the room of the jobs of one namespace in one pool.
type loan struct {
	jobs     map[identity.JobKey]*borrower
	idle     time.Duration // that jobs have used up that are gone
	failures int           // pauses in a row
	paused   time.Time     // none is made before
	wasted   time.Time     // when room was last found to have been idle in vain
}

// borrower is a job that room is made for.
type borrower struct {
	workers int           // without a place
	worker  int           // slots of the smallest of them
	has     int           // workers, at the last observation
	most    int           // of them at once
	peak    int           // slots that were kept for it at once
	idle    time.Duration // for which as many were free
	share   float64       // of the peak that counts as free now
}

// longestPause is the longest pause, in multiples of the first.
const longestPause = 8

// tooFew divides the time in which slots are free, but too few for a worker. It counts
// still: who keeps the last of them could keep the others free for ever.
const tooFew = 4

// firstPause is how long a namespace's first pause lasts.
func firstPause(o *planner.Options) time.Duration { return max(o.PlacementRetry, o.PlacementTimeout) }

// observe brings the accounts up to date and returns the namespaces that are paused
// from now on.
func (r *loans) observe(v *cluster.View, now time.Time, o *planner.Options) (gaveUp []loanKey) {
	past := max(0, now.Sub(r.at))
	if r.at.IsZero() {
		past, r.of = 0, map[loanKey]*loan{}
	}
	r.at = now
	type in struct {
		pool string
		job  identity.JobKey
	}
	waiting := map[in]int{}
	for _, b := range v.Blocked {
		key := loanKey{b.Pool, b.Key.Namespace}
		if r.of[key] == nil {
			r.of[key] = &loan{jobs: map[identity.JobKey]*borrower{}}
		}
		if r.of[key].jobs[b.Key] == nil {
			r.of[key].jobs[b.Key] = &borrower{workers: b.Workers, has: v.Others[b.Key], most: v.Others[b.Key]}
		}
		r.of[key].jobs[b.Key].worker = b.Worker
		waiting[in{b.Pool, b.Key}] = b.Workers
	}
	for key, m := range r.of {
		if now.Sub(m.wasted) > 2*longestPause*firstPause(o) {
			m.idle, m.failures = 0, 0
		}
		var longest time.Duration
		for job, t := range m.jobs {
			t.pass(past, v.Others[job])
			if t.workers = waiting[in{key.pool, job}]; t.workers == 0 {
				m.charge(t.idle, now)
				delete(m.jobs, job)
				continue
			}
			longest = max(longest, t.idle)
		}
		switch {
		case m.idle+longest >= o.PlacementTimeout:
			m.giveUp(now, o)
			gaveUp = append(gaveUp, key)
		case len(m.jobs) == 0 && m.idle == 0 && m.failures == 0:
			delete(r.of, key)
		}
	}
	return gaveUp
}

// pass lets time pass for a job that has so many workers now. Slots that were filled
// meanwhile were not idle. More workers than it ever had take their part of all idle
// time with them: those that end and are placed again must not do so each time.
func (t *borrower) pass(past time.Duration, has int) {
	filled := float64(max(0, has-t.has)*t.worker) / float64(max(1, t.peak))
	t.idle += time.Duration(float64(past) * max(0, t.share-filled))
	t.has = has
	if placed := min(has-t.most, t.workers); placed > 0 {
		t.idle = time.Duration(float64(t.idle) * float64(t.workers-placed) / float64(t.workers))
		t.most = has
	}
}

// charge keeps the time for which room was idle for a job that is gone.
func (m *loan) charge(idle time.Duration, now time.Time) {
	if idle > 0 {
		m.idle, m.wasted = m.idle+idle, now
	}
}

// giveUp begins a pause.
func (m *loan) giveUp(now time.Time, o *planner.Options) {
	m.paused = now.Add(firstPause(o) * time.Duration(min(1<<min(m.failures, longestPause), longestPause)))
	m.failures++
	m.idle, m.wasted = 0, now
	for _, t := range m.jobs {
		t.idle = 0
	}
}

// isPaused reports whether no room is made for a namespace's jobs.
func (r *loans) isPaused(key loanKey, now time.Time) bool {
	m := r.of[key]
	return m != nil && m.paused.After(now)
}

// keep has the view keep slots free, and notes how much of each job's room is free.
// It returns when the next pause begins or ends, if nothing happens until then; zero
// for never.
func (r *loans) keep(v *cluster.View, now time.Time, o *planner.Options) time.Time {
	given := r.reserve(v, now)
	var next time.Time
	for key, m := range r.of {
		free := unused(v, key.pool)
		var longest time.Duration
		running := 0.0
		for job, t := range m.jobs {
			t.share = 0
			if n := given[job]; n > 0 {
				t.peak = max(t.peak, n)
				t.share = float64(min(n, free)) / float64(t.peak)
				if free < t.worker {
					t.share /= tooFew
				}
			}
			running = max(running, t.share)
			longest = max(longest, t.idle)
		}
		switch {
		case m.paused.After(now) && len(m.jobs) > 0:
			next = earliest(m.paused, next)
		case running > 0:
			left := float64(o.PlacementTimeout - m.idle - longest)
			next = earliest(now.Add(time.Duration(left/running)+time.Millisecond), next)
		}
	}
	return next
}

// reserve keeps slots free that jobs which are not elastic wait for, as far
// as elastic jobs of no higher priority hold them above their minimum, and a worker
// fits into them. It returns how many each job was given.
func (r *loans) reserve(v *cluster.View, now time.Time) map[identity.JobKey]int {
	given := map[identity.JobKey]int{}
	v.Reserved = map[string]int{}
	for _, b := range v.Blocked { // highest priority first
		if r.isPaused(loanKey{b.Pool, b.Key.Namespace}, now) {
			continue
		}
		n := min(b.Slots, max(0, spare(v, b.Pool, b.Priority, now)-v.Reserved[b.Pool]))
		if n < b.Worker {
			continue
		}
		given[b.Key] = n
		v.Reserved[b.Pool] += n
	}
	return given
}

// spare is how many slots of a pool elastic jobs could do without for a job of
// the given priority.
func spare(v *cluster.View, pool string, priority int, now time.Time) int {
	n := ready(v, pool)
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.Pool != pool {
			continue
		}
		keep := j.Count()
		if j.Priority <= priority && movable(j, now) {
			keep = min(keep, j.Min)
			if j.Preemptible && j.Priority < priority {
				keep = 0
			}
		}
		n -= keep * v.Facts[i].Slots
	}
	return n
}

// ready is how many slots of a pool are on nodes that take workers, without those that
// jobs which are not elastic hold.
func ready(v *cluster.View, pool string) int {
	n := 0
	for i := range v.Nodes {
		if v.Nodes[i].Pool == pool && v.Nodes[i].State == planner.Ready {
			for _, bin := range v.Nodes[i].Bins {
				n += max(0, bin.Slots)
			}
		}
	}
	return n
}

// unused is how many of them no worker holds.
func unused(v *cluster.View, pool string) int {
	n := ready(v, pool)
	for i := range v.Jobs {
		if v.Jobs[i].Pool != pool {
			continue
		}
		for _, g := range v.Jobs[i].Groups {
			for _, w := range g.Live {
				if w.Node < 0 || v.Nodes[w.Node].State == planner.Ready {
					n -= g.Need.Slots
				}
			}
		}
	}
	return max(0, n)
}
