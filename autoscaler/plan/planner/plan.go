// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// Make plans the writes that bring the cluster closer to the wanted counts without breaking
// a guarantee. wants is in the order of c.Jobs, and jobs grow in that order. Make only reads
// c.
func Make(c *Cluster, wants []Want, now time.Time, o Options) Plan {
	b := &planBuilder{Cluster: c, wants: wants, now: now, o: o, target: make([]int, len(c.Jobs)), unplaced: map[int]bool{}, acted: map[int]bool{}, moving: map[int]bool{}, repairs: map[int]bool{}, coming: map[string]bool{}}
	for j := range c.Jobs {
		b.target[j] = b.targetOf(j, wants[j])
	}
	for j := range c.Jobs {
		if b.target[j] < c.Jobs[j].Count() && !b.unplaced[j] {
			b.shrink(j, wants[j])
		}
	}
	// Room is counted after the shrinks were decided, but they free nothing
	// yet: their workers are still alive.
	b.capacity = newCapacity(c, now)
	for j := range c.Jobs {
		switch {
		case b.repairs[j]:
			b.repair(j, wants[j])
		case b.unplaced[j] && c.Jobs[j].moves() && b.target[j] < c.Jobs[j].Count():
			b.shrink(j, wants[j])
		case b.unplaced[j] && !c.Jobs[j].moves():
			b.relocateUnplaced(j)
		case b.moving[j] || b.unplaced[j]:
			b.proceed(j)
		}
	}
	releasing := b.releasing()
	b.lending = b.lenders()
	for j := range c.Jobs {
		if b.target[j] > c.Jobs[j].Count() && !b.acted[j] {
			b.grow(j, wants[j], releasing[c.Jobs[j].Pool])
		}
	}
	b.migrate()
	b.spares()
	for j := range c.Jobs {
		b.keep(j)
	}
	return b.plan
}

// planBuilder is one plan while it is being made.
type planBuilder struct {
	*Cluster
	wants    []Want
	now      time.Time
	o        Options
	target   []int // total workers that this plan may move each job to
	capacity *capacity
	unplaced map[int]bool    // jobs with workers that found no place in time
	acted    map[int]bool    // jobs that have an action
	moving   map[int]bool    // jobs whose move is half done
	repairs  map[int]bool    // gangs that are not whole
	gangs    []int           // jobs that wait for room to start
	load     []int           // elastic workers by node; nil until a pool that packs needs it
	coming   map[string]bool // pools with jobs that wait for room that is coming
	lending  []int           // jobs that can give spares back at once
	plan     Plan
	sites    []placement.Site // buffer
}

func (b *planBuilder) wait(j, want int, until time.Time, why string) {
	job := &b.Jobs[j]
	w := Wait{Job: job.Key, Count: job.Count(), Want: want, Why: why, Until: until}
	if w.Count == 0 {
		w.Reason = waiting.Settling // unless the caller knows better
	}
	b.plan.Waits = append(b.plan.Waits, w)
	b.requeueAt(until)
}

func (b *planBuilder) requeueAt(t time.Time) {
	if t.After(b.now) && (b.plan.RequeueAt.IsZero() || t.Before(b.plan.RequeueAt)) {
		b.plan.RequeueAt = t
	}
}

func (b *planBuilder) act(j int, a Action) {
	b.acted[j] = true
	if b.o.MaxWrites > 0 && len(b.plan.Actions) >= b.o.MaxWrites {
		b.requeueAt(b.now.Add(time.Millisecond))
		return
	}
	b.plan.Actions = append(b.plan.Actions, a)
}

// targetOf returns the total that a job may go to now: the wanted one, brought within its
// bounds, or its current count if it must not change.
func (b *planBuilder) targetOf(j int, w Want) int {
	job := &b.Jobs[j]
	count := job.Count()
	want := job.allowed(w.Count)
	if w.Stops && w.Count == 0 {
		want = job.floor()
	}
	if why := cmp.Or(job.Frozen, job.HoldReason); why != "" {
		if want != count {
			b.wait(j, want, time.Time{}, why)
		}
		return count
	}
	if job.ManualUntil.After(b.now) {
		if want != count {
			b.wait(j, want, job.ManualUntil, "a user set the count by hand")
		}
		b.requeueAt(job.ManualUntil)
		return count
	}
	if job.ragged() {
		b.repairs[j] = true // before anything else is done to the job
		return count
	}
	if b.overdue(j) {
		b.unplaced[j] = true
		if n := b.rollbackTo(j, b.placed(j)); n < count {
			return n
		}
	}
	if job.moves() && !b.unplaced[j] && job.UnhealthyReason == "" && !b.stranded(j) {
		b.moving[j] = true // it ends before anything else is done to the job
		return count
	}
	if want == count {
		return count
	}
	if job.UnhealthyReason != "" {
		b.wait(j, want, time.Time{}, job.UnhealthyReason)
		return count
	}
	reclaimed := (w.Reclaimed || w.Stops) && want < count
	if until := job.LastChange.Add(b.o.Hold); !reclaimed && until.After(b.now) && !job.LastChange.IsZero() && (count > 0 || job.Started) {
		b.wait(j, want, until, "resized just now")
		return count
	}
	if until := job.growAfter(); want > count && until.After(b.now) {
		b.wait(j, want, until, "its last workers found no place")
		b.noteShortfall(want - count)
		return count
	}
	return want
}

// allowed returns the largest allowed total of the job that is at most n: within its
// bounds, one of its sizes, and 0 only if the job may stop.
func (job *Job) allowed(n int) int {
	best := job.Sizes.Fit(n, job.Min, job.Max)
	if best == 0 && !job.mayStop() {
		// A job that must not be suspended does not fall below its minimum. If it is
		// below already, it stays there.
		return max(job.floor(), min(job.Count(), job.smallest()))
	}
	return best
}

// smallest returns the smallest running size.
func (job *Job) smallest() int { return job.Sizes.Above(job.Min - 1) }

// floor returns the smallest total that Nomad accepts.
func (job *Job) floor() int {
	n := 0
	for i := range job.Groups {
		n += job.Groups[i].Min
	}
	return n
}

// mayStop reports whether the job may go to 0 workers: it never had its minimum, or it
// may be suspended.
func (job *Job) mayStop() bool {
	return job.floor() == 0 && (!job.Started || job.Incomplete || job.Preemptible)
}

// releasing returns the pools in which more room is coming, and until when to wait for it.
// Room is coming when workers beyond their job's count are ending, or will be by the shrinks
// of this plan. Workers on lost nodes hold no room and may never end. Others may hang, so
// the wait is bounded.
func (b *planBuilder) releasing() map[string]time.Time {
	out := map[string]time.Time{}
	for j := range b.Jobs {
		job := &b.Jobs[j]
		since := job.lastRelease()
		switch {
		case b.target[j] < min(job.Count(), job.Alive()):
			since = b.now
		case b.holding(j) <= job.Count():
			continue
		}
		if until := since.Add(b.o.PlacementTimeout); until.After(b.now) && until.After(out[job.Pool]) {
			out[job.Pool] = until
		}
	}
	return out
}

// holding returns how many of a job's workers hold room that others could use.
func (b *planBuilder) holding(j int) int {
	n := 0
	for g := range b.Jobs[j].Groups {
		for _, w := range b.Jobs[j].Groups[g].Live {
			if w.Node >= 0 && b.Nodes[w.Node].State != Draining {
				n++
			}
		}
	}
	return n
}

// keep protects a job without workers from Nomad's garbage collection, in time.
func (b *planBuilder) keep(j int) {
	job := &b.Jobs[j]
	if job.KeepUntil.IsZero() || job.Count() != 0 || b.acted[j] || job.Frozen != "" || job.HoldReason != "" {
		return
	}
	if at := job.KeepUntil.Add(-b.o.GCProtection); at.After(b.now) {
		b.requeueAt(at)
		return
	}
	b.act(j, Action{
		Job: job.Key, Index: job.Index, Cause: Keep,
		Reason: "protects the waiting job from garbage collection",
		Steps:  []Step{{Group: job.Groups[0].Name}},
	})
}
