// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// A job that ran for its queue's max_time goes behind the other jobs of the queue.
func TestPolicy_MaxTime(t *testing.T) {
	tree := treeOf(t, q("a", 8, func(q *queue.Queue) { q.MaxTime = 100 }), q("b", 8))
	w := newTable(t, 16, New(tree, policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 8, 8, preemptible)
	w.job("a2", "a", 8, 8, preemptible)
	w.job("b1", "b", 8, 8, preemptible)
	must.Eq(t, "a1=8 a2=0 b1=8", w.decide().counts())
	w.s.Now, w.s.Jobs[0].RunTime, w.s.Jobs[2].RunTime = 61, 60, 60
	must.Eq(t, "a1=8 a2=0 b1=8", w.decide().counts())
	must.Eq(t, 101, w.last.RequeueAt)
	w.s.Now, w.s.Jobs[0].RunTime, w.s.Jobs[2].RunTime = 101, 100, 100
	must.Eq(t, "a1=0 a2=8 b1=8", w.decide().counts())
	must.StrHasSuffix(t, "; it has run for the max_time of its queue, so other jobs go first", w.reason("a1"))
}

// If a queue stops jobs at their max_time, such a job has no workers until it is registered
// again, even if it is not preemptible. A job that cannot have 0 workers keeps its minimum.
// The max_time of each queue around it applies as well.
func TestPolicy_MaxTimeStops(t *testing.T) {
	inner := q("a", 8, func(q *queue.Queue) { q.MaxTime = 100 })
	outer := q("all", 8, func(q *queue.Queue) { q.MaxTime, q.Stops, q.Queues = 200, true, []queue.Queue{inner} })
	w := newTable(t, 16, New(treeOf(t, outer, q("b", 0)), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 4, 8)
	w.job("a2", "a", 2, 8, func(j *policy.Job) { j.Permanent = true })
	must.Eq(t, "a1=8 a2=8", w.decide().counts())
	w.job("a3", "a", 4, 8)
	ran := func(seconds float64) {
		w.s.Now = 1 + seconds
		w.s.Jobs[0].RunTime, w.s.Jobs[1].RunTime = seconds, seconds
	}
	ran(50)
	must.Eq(t, "a1=6 a2=4 a3=6", w.decide().counts())
	must.Eq(t, 101, w.last.RequeueAt)
	ran(100)
	w.decide()
	must.Eq(t, 201, w.last.RequeueAt)
	ran(200)
	must.Eq(t, "a1=0 a2=2 a3=8", w.decide().counts())
	for range 2 {
		must.True(t, w.last.Allocations[0].Stops)
		must.False(t, w.last.Allocations[1].Stops)
		must.Eq(t, `over-limit: it ran for 3m20s, the max_time of queue "all", and is stopped; register it again to run it again`, w.reason("a1"))
		w.decide()
	}
	w.s.Jobs[0].Pardoned = 200
	must.Eq(t, "a1=7 a2=2 a3=7", w.decide().counts())
}
