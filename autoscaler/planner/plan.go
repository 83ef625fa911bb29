// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"time"
)

// Make plans the writes that bring the cluster closer to the wanted counts
// without breaking a guarantee. wants is in the order of c.Jobs; growth is
// given out in that order. c is only read.
func Make(c *Cluster, wants []Want, now time.Time, o Options) Plan {
	m := &planBuilder{Cluster: c, now: now, o: o, target: make([]int, len(c.Jobs)), stuck: map[int]bool{}, acted: map[int]bool{}}
	for j := range c.Jobs {
		m.target[j] = m.targetOf(j, wants[j])
	}
	for j := range c.Jobs {
		if m.target[j] < c.Jobs[j].Count() && !m.stuck[j] {
			m.shrink(j, wants[j])
		}
	}
	// Room is counted after the shrinks were decided, but they free nothing
	// yet: their workers are still alive.
	m.capacity = newCapacity(c, now)
	for j := range c.Jobs {
		if m.stuck[j] {
			m.relocateUnplaced(j)
		}
	}
	releasing := m.releasing()
	for j := range c.Jobs {
		if m.target[j] > c.Jobs[j].Count() && !m.acted[j] {
			m.grow(j, wants[j], releasing[c.Jobs[j].Pool])
		}
	}
	for j := range c.Jobs {
		m.keep(j)
	}
	return m.plan
}

// planBuilder is one plan in the planBuilder.
type planBuilder struct {
	*Cluster
	now      time.Time
	o        Options
	target   []int // total workers that this plan may move each job to
	capacity *capacity
	stuck    map[int]bool // jobs with workers that found no place in time
	acted    map[int]bool // jobs that have an action
	plan     Plan
}

func (m *planBuilder) wait(j, want int, until time.Time, why string) {
	job := &m.Jobs[j]
	m.plan.Waits = append(m.plan.Waits, Wait{Job: job.Key, Count: job.Count(), Want: want, Why: why, Until: until})
	m.wakeAt(until)
}

func (m *planBuilder) wakeAt(t time.Time) {
	if t.After(m.now) && (m.plan.RequeueAt.IsZero() || t.Before(m.plan.RequeueAt)) {
		m.plan.RequeueAt = t
	}
}

func (m *planBuilder) act(j int, a Action) {
	m.acted[j] = true
	if m.o.MaxWrites > 0 && len(m.plan.Actions) >= m.o.MaxWrites {
		m.wakeAt(m.now.Add(time.Millisecond))
		return
	}
	m.plan.Actions = append(m.plan.Actions, a)
}

// settle is the total that a job may go to now: what is wanted, brought
// within its bounds, or its present count where it is to be left alone.
func (m *planBuilder) targetOf(j int, w Want) int {
	job := &m.Jobs[j]
	count := job.Count()
	want := job.allowed(w.Count)
	if job.Frozen != "" {
		if want != count {
			m.wait(j, want, time.Time{}, job.Frozen)
		}
		return count
	}
	if job.HoldReason != "" {
		if want != count {
			m.wait(j, want, time.Time{}, job.HoldReason)
		}
		return count
	}
	if job.ManualUntil.After(m.now) {
		if want != count {
			m.wait(j, want, job.ManualUntil, "a user set the count by hand")
		}
		m.wakeAt(job.ManualUntil)
		return count
	}
	if m.overdue(j) {
		m.stuck[j] = true
		if n := m.without(j, m.placed(j)); n < count {
			return n
		}
	}
	if want == count {
		return count
	}
	if job.UnhealthyReason != "" {
		m.wait(j, want, time.Time{}, job.UnhealthyReason)
		return count
	}
	if until := job.LastChange.Add(m.o.Hold); until.After(m.now) && !job.LastChange.IsZero() && (count > 0 || job.Started) {
		m.wait(j, want, until, "resized just now")
		return count
	}
	if until := job.growAfter(); want > count && until.After(m.now) {
		m.wait(j, want, until, "its last workers found no place")
		return count
	}
	return want
}

// allowed is the largest total of the job that is at most n: within its
// bounds, one of its sizes, and 0 only where 0 keeps the promises.
func (job *Job) allowed(n int) int {
	best := job.Sizes.Fit(n, job.Min, job.Max)
	if best == 0 && !job.mayStop() {
		// A job that must not be suspended stays where it is rather than
		// fall below its minimum, and below it is not pulled up here.
		return max(job.floor(), min(job.Count(), job.smallest()))
	}
	return best
}

// smallest is the smallest running size.
func (job *Job) smallest() int { return job.Sizes.Above(job.Min - 1) }

// floor is the smallest total that Nomad accepts.
func (job *Job) floor() int {
	n := 0
	for i := range job.Groups {
		n += job.Groups[i].Min
	}
	return n
}

func (job *Job) canBeZero() bool { return job.floor() == 0 }

// mayStop says whether 0 workers keep the promises made to the job: it has
// not begun, or it may be suspended.
func (job *Job) mayStop() bool {
	return job.canBeZero() && (!job.Started || job.Preemptible)
}

// releasing says in which pools more room is coming, and until when that is
// worth waiting for: workers beyond their job's count are ending, or will be by
// the shrinks of this plan. Those on nodes that are lost hold no room and may
// never end; others may hang, and nobody is to wait for them for ever.
func (m *planBuilder) releasing() map[string]time.Time {
	out := map[string]time.Time{}
	for j := range m.Jobs {
		job := &m.Jobs[j]
		since := job.LastChange
		switch {
		case m.target[j] < min(job.Count(), job.Alive()):
			since = m.now
		case m.holding(j) <= job.Count():
			continue
		}
		if until := since.Add(m.o.PlacementTimeout); until.After(m.now) && until.After(out[job.Pool]) {
			out[job.Pool] = until
		}
	}
	return out
}

// holding is how many of a job's workers hold room that others could have.
func (m *planBuilder) holding(j int) int {
	n := 0
	for g := range m.Jobs[j].Groups {
		for _, w := range m.Jobs[j].Groups[g].Live {
			if w.Node >= 0 && m.Nodes[w.Node].State != Draining {
				n++
			}
		}
	}
	return n
}

// keep protects a parked job before Nomad would collect it.
func (m *planBuilder) keep(j int) {
	job := &m.Jobs[j]
	if job.KeepUntil.IsZero() || job.Count() != 0 || m.acted[j] || job.Frozen != "" || job.HoldReason != "" {
		return
	}
	if at := job.KeepUntil.Add(-m.o.GCProtection); at.After(m.now) {
		m.wakeAt(at)
		return
	}
	m.act(j, Action{
		Job: job.Key, Index: job.Index, Cause: Keep,
		Reason: "protects the waiting job from garbage collection",
		Steps:  []Step{{Group: job.Groups[0].Name}},
	})
}

func (m *planBuilder) reason(from, to int, why string) string {
	if why == "" {
		return fmt.Sprintf("%d→%d", from, to)
	}
	return why
}
