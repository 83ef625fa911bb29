// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

func reclaims(after int) func(*queue.Queue) {
	return func(q *queue.Queue) { q.ReclaimAfter = after }
}

// A queue gets free slots at once. It gets slots of a borrower only after it has wanted
// them for reclaim_after, whatever its jobs claim.
func TestPolicy_ReclaimAfter(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 8, reclaims(100)), q("b", 0)), policyOf(t, "elastic-fifo"), nil))
	w.job("b1", "b", 2, 13)
	must.Eq(t, "b1=13", w.decide().counts())
	w.s.Now = 50
	w.job("a1", "a", 2, 8, func(j *policy.Job) { j.Submit = -1e6 })
	w.job("a2", "a", 4, 4)
	must.Eq(t, "b1=13 a1=3 a2=0", w.decide().counts())
	must.Eq(t, 150, w.last.RequeueAt)
	must.Eq(t, `no-room: its minimum is 4 slots, and queue "a" may use 3 now; it gets its share back after it has wanted it for 1m40s`, w.reason("a2"))
	w.s.Now = 149
	must.Eq(t, "b1=13 a1=3 a2=0", w.decide().counts())
	w.s.Now = 150
	must.Eq(t, "b1=4 a1=8 a2=4", w.decide().counts())
	must.True(t, w.last.Allocations[0].Reclaimed)

	// It lends them again, and then has to want them for as long again.
	w.s.Jobs = w.s.Jobs[:1]
	must.Eq(t, "b1=13", w.decide().counts())
	w.s.Now = 160
	w.job("a3", "a", 8, 8)
	must.Eq(t, "b1=13 a3=0", w.decide().counts())
	w.s.Now = 260
	must.Eq(t, "b1=8 a3=8", w.decide().counts())
}

// If demand ends, or a queue does not use its slots, the time starts again.
func TestPolicy_ReclaimAfterWithoutInterruption(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 8, reclaims(100)), q("b", 0)), policyOf(t, "elastic-fifo"), nil))
	w.job("b1", "b", 2, 16)
	w.decide()
	w.job("a1", "a", 8, 8)
	must.Eq(t, "b1=16 a1=0", w.decide().counts())
	gone := w.s.Jobs[1]
	w.s.Now, w.s.Jobs = 61, w.s.Jobs[:1]
	w.decide()
	w.s.Now, w.s.Jobs = 90, append(w.s.Jobs, gone)
	w.decide()
	w.s.Now = 120
	must.Eq(t, "b1=16 a1=0", w.decide().counts())
	w.s.Now = 190
	must.Eq(t, "b1=8 a1=8", w.decide().counts())
}

// All queues have reclaim_after. An arrival takes no slot from a running job. When the time
// is over, the division is that of a tree without reclaim_after.
func TestPolicy_ReclaimAfterIsOnlyADelay(t *testing.T) {
	for seed := range uint64(150) {
		c := randomCluster(t, seed, "elastic-fifo")
		var slow func(in []queue.Queue) []queue.Queue
		slow = func(in []queue.Queue) (out []queue.Queue) {
			for _, o := range in {
				o.Queues, o.ReclaimAfter = slow(o.Queues), 1000
				out = append(out, o)
			}
			return out
		}
		tree := treeOf(t, append(slow(c.top), queue.Queue{Name: queue.Any, Weight: queue.WeightUnit, ReclaimAfter: 1000})...)
		soon, late := c.p, New(tree, policyOf(t, "elastic-fifo"), nil)
		c.p = late
		for range 12 {
			_, before, _ := c.uses()
			jobs := len(c.s.Jobs)
			c.happen(false)
			arrived := len(c.s.Jobs) > jobs
			c.decide()
			l, used, _ := c.uses()
			if arrived {
				newest := &c.s.Jobs[len(c.s.Jobs)-1]
				own := l.Leaf(newest.Queue, newest.Namespace)
				for n := range before {
					must.True(t, n == own || len(l.Nodes[n].Children) > 0 || used[n] >= before[n], must.Sprintf("seed %d: %s", seed, c.counts()))
				}
			}
			c.s.Now += 1000
			other := &table{t: t, p: soon, s: c.s}
			other.s.Jobs, other.s.State = slices.Clone(c.s.Jobs), nil
			got := c.decide().counts()
			must.Eq(t, other.decide().counts(), got, must.Sprintf("seed %d", seed))
		}
	}
}
