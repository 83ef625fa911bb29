// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// loans accounts for room that is kept free for jobs that are not elastic.
//
// Whether Nomad will use the room is unknown in advance, because the autoscaler does not
// read volumes, ports and quotas. Therefore the room is only lent, and a namespace whose
// room stays idle has to pause:
//
//	            its jobs wait                 room idle for PlacementTimeout
//	no room ───────────────────> room made ──────────────────────────────> paused
//	   ^                            │  ^                                      │
//	   └────────────────────────────┘  └──────────────────────────────────────┘
//	        all of them were placed         after a pause, longer each time
//
// Idle time is weighted by the free part of a job's room: half of the room for a minute
// counts like all of it for half a minute. Time counts a quarter if the free slots are
// too few for one worker because other jobs still hold theirs.
//
// Time counts until the workers are placed. If a job disappears without them, its idle
// time stays on the account of its namespace, so another name or another registration
// does not reset it. An account is reset after twice the longest pause without idle room.
type loans struct {
	at time.Time // of the last observation
	of map[loanKey]*loan

	divided map[string]*division // now, by pool
}

type loanKey struct{ pool, namespace string }

// loan is the room of the jobs of one namespace in one pool.
type loan struct {
	jobs     map[identity.JobKey]*borrower
	idle     time.Duration // idle time of jobs that have disappeared
	failures int           // pauses in a row
	paused   time.Time     // earliest time for making room again
	wasted   time.Time     // when idle room was last charged
}

// borrower is a job for which room is made.
type borrower struct {
	workers int           // workers without a place
	worker  int           // slots of the smallest of them
	has     int           // workers with a place, at the last observation
	most    int           // most workers with a place at any time
	peak    int           // most slots that were kept for it at any time
	idle    time.Duration // weighted time for which these slots were free
	share   float64       // part of the peak that counts as free now
}

// longestPause is the longest pause, in multiples of the first.
const longestPause = 8

// tooFew divides the time in which slots are free, but too few for a worker. Without it,
// a job that holds the last slots could keep the others free forever.
const tooFew = 4

// firstPause returns the duration of a namespace's first pause.
func firstPause(o *planner.Options) time.Duration { return max(o.PlacementRetry, o.PlacementTimeout) }

// observe updates the accounts, and returns the namespaces that are paused from now on.
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

// pass adds the time since the last observation to a job that now has the given number of
// workers. Slots that were filled in that time were not idle. If the job has more workers
// than ever before, the new workers remove their share of all idle time. Workers that end
// and are placed again do not.
func (t *borrower) pass(past time.Duration, has int) {
	filled := float64(max(0, has-t.has)*t.worker) / float64(max(1, t.peak))
	t.idle += time.Duration(float64(past) * max(0, t.share-filled))
	t.has = has
	if placed := min(has-t.most, t.workers); placed > 0 {
		t.idle = time.Duration(float64(t.idle) * float64(t.workers-placed) / float64(t.workers))
		t.most = has
	}
}

// charge adds the idle time of a job that has disappeared to the account.
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

// isPaused reports whether room-making is paused for a namespace's jobs.
func (r *loans) isPaused(key loanKey, now time.Time) bool {
	m := r.of[key]
	return m != nil && m.paused.After(now)
}

// keep reserves slots in the view, and records how much of each job's room is free. It
// returns the time at which the next pause begins or ends if nothing else happens; zero
// means never.
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

// reserve reserves slots in the view for waiting jobs that are not elastic. It takes
// slots that elastic jobs can spare, in a divided pool within what the job's queue is
// entitled to, and only if a worker fits into them. It returns the number of slots for each
// job.
func (r *loans) reserve(v *cluster.View, now time.Time) map[identity.JobKey]int {
	given := map[identity.JobKey]int{}
	v.Reserved, v.Waiting = map[string]int{}, map[string]int{}
	for i := range v.Blocked { // highest priority first
		b := &v.Blocked[i]
		if key := (loanKey{b.Pool, b.Key.Namespace}); r.isPaused(key, now) {
			b.Wait, b.Sentence = waiting.Held, "Nomad placed nothing into the room that was made for jobs of its namespace; room is made again at "+r.of[key].paused.Format(time.TimeOnly)
			continue
		}
		d := r.divided[b.Pool]
		all, own := spare(v, b, d, now)
		n := min(b.Slots, max(0, all-v.Reserved[b.Pool]))
		b.Wait, b.Sentence = waiting.NoRoom, fmt.Sprintf("it needs %d slots, and elastic jobs can spare %d for it", b.Slots, n)
		if d != nil && d.entitled(b, own) < n {
			n = d.entitled(b, own)
			b.Sentence = d.explain(b, n)
		}
		if n < b.Worker {
			n = 0
		}
		if free := min(b.Slots, idle(v, b.Pool, now)-v.Reserved[b.Pool]-v.Waiting[b.Pool]); free >= max(b.Worker, n) {
			v.Waiting[b.Pool] += free - n // no worker gives way for these, but Nomad may place its workers there
		}
		if n == 0 {
			continue
		}
		if n == b.Slots {
			b.Wait, b.Sentence = waiting.Settling, fmt.Sprintf("%d slots are kept free for it", n)
		}
		if d != nil {
			d.rigid[d.leafOf(b)] += n
		}
		given[b.Key], b.Room = n, n
		v.Reserved[b.Pool] += n
	}
	return given
}

// spare returns how many slots of a pool are free or could be released by elastic jobs for
// another job, and how many the elastic jobs of its own queue keep. d is nil if the pool is
// not divided.
func spare(v *cluster.View, b *cluster.Blocked, d *division, now time.Time) (all, own int) {
	all = ready(v, b.Pool)
	for i := range v.Jobs {
		if v.Jobs[i].Pool != b.Pool {
			continue
		}
		foreign := d != nil && d.leaf[i] != d.leafOf(b)
		keep := v.Facts[i].SlotsOf(keeps(&v.Jobs[i], b.Priority, foreign, now))
		all -= keep
		if !foreign {
			own += keep
		}
	}
	return all, own
}

// idle returns how many slots of a pool are free, or held by spares that can be given back.
func idle(v *cluster.View, pool string, now time.Time) int {
	n := ready(v, pool)
	for i := range v.Jobs {
		if j := &v.Jobs[i]; j.Pool == pool {
			n -= v.Facts[i].SlotsOf(j.Count())
			if !movable(j, now) {
				n -= v.Facts[i].SlotsOf(j.HeldSpares())
			}
		}
	}
	return n
}

// ready returns how many slots of a pool are on nodes that take workers, without those that
// non-elastic jobs hold.
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

// unused returns how many of the slots that ready counts are held by no worker.
func unused(v *cluster.View, pool string) int {
	n := ready(v, pool)
	for i := range v.Jobs {
		if v.Jobs[i].Pool != pool {
			continue
		}
		for _, g := range v.Jobs[i].Groups {
			for _, w := range slices.Concat(g.Live, g.Spares) {
				if w.Node < 0 || v.Nodes[w.Node].State == planner.Ready {
					n -= g.Need.Slots
				}
			}
		}
	}
	return max(0, n)
}
