// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

func inOrder(o queue.Order) func(*queue.Queue) {
	return func(q *queue.Queue) { q.Order = o }
}

// Some jobs may start while a gang waits for the slots of a job that cannot be suspended.
func TestPolicy_Order(t *testing.T) {
	for name, tc := range map[string]struct {
		order queue.Order
		want  string // after the first decision, and after a1 ended
	}{
		"the policy chooses": {queue.OrderPolicy, "a1=11 gang=0 small=5 lent=0 | gang=0 small=5 lent=4 later=4"},
		"strict":             {queue.OrderStrict, "a1=16 gang=0 small=0 lent=0 | gang=12 small=0 lent=0 later=0"},
		"skip":               {queue.OrderSkip, "a1=12 gang=0 small=0 lent=4 | gang=12 small=0 lent=4 later=0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTable(t, 16, New(treeOf(t, q("a", 16, inOrder(tc.order))), policyOf(t, "elastic-fifo"), nil))
			w.job("a1", "a", 8, 16)
			w.decide()
			w.s.Jobs[0].RunTime = 10
			w.job("gang", "a", 12, 12)
			w.job("small", "a", 5, 5)
			w.job("lent", "a", 4, 4, preemptible)
			before := w.decide().counts()
			w.s.Jobs = w.s.Jobs[1:]
			w.job("later", "a", 4, 4, preemptible)
			w.decide()
			must.Eq(t, tc.want, before+" | "+w.decide().counts())
		})
	}
}

// Firm slots are lent only if a gang could not use them, whichever job ends first.
func TestPolicy_SkipLendsFirmSlots(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 16, inOrder(queue.OrderSkip))), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 9, 9)
	w.decide()
	w.job("gang", "a", 12, 12)
	w.job("x", "a", 5, 5)
	w.job("y", "a", 4, 4)
	w.job("z", "a", 1, 1)
	must.Eq(t, "a1=9 gang=0 x=0 y=4 z=0", w.decide().counts())
	must.Eq(t, "in-queue: job gang waits before it, and would be delayed", w.reason("x"))
	w.s.Jobs = w.s.Jobs[1:]
	must.Eq(t, "gang=12 x=0 y=4 z=0", w.decide().counts())
}

// A job that can never run is not the head of its queue.
func TestPolicy_OrderPassesWhatNeverRuns(t *testing.T) {
	for _, o := range []queue.Order{queue.OrderStrict, queue.OrderSkip} {
		w := newTable(t, 16, New(treeOf(t, q("a", 4, inOrder(o)), q("b", 8)), policyOf(t, "elastic-fifo"), nil))
		w.s.Nodes[0].Type = "a100"
		w.job("large", "a", 17, 32, preemptible)
		w.job("firm", "a", 9, 9)
		w.job("h100", "a", 1, 1, preemptible, func(j *policy.Job) { j.Type = "h100" })
		w.job("fits", "a", 8, 8)
		must.Eq(t, "large=0 firm=0 h100=0 fits=8", w.decide().counts())
	}
}

// The last place of max_jobs belongs to the first waiting job.
func TestPolicy_SkipLeavesAPlace(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t, q("a", 8, inOrder(queue.OrderSkip), func(q *queue.Queue) { q.MaxJobs = 3 }), q("b", 8)), policyOf(t, "elastic-fifo"), nil))
	w.job("a1", "a", 4, 4)
	w.decide()
	w.job("gang", "a", 8, 8)
	w.job("x", "a", 1, 1, preemptible)
	w.job("y", "a", 1, 1, preemptible)
	must.Eq(t, "a1=4 gang=0 x=1 y=0", w.decide().counts())
	w.s.Jobs = w.s.Jobs[1:]
	must.Eq(t, "gang=8 x=1 y=1", w.decide().counts())
}

// run is a queue in time: jobs arrive, run for a time of their own, and end.
type run struct {
	*table
	length map[string]int
	ends   map[string]int
	order  queue.Order
}

func newRun(t *testing.T, rng *rand.Rand, o queue.Order) *run {
	slots := 8 + rng.IntN(24)
	guarantee := rng.IntN(slots)
	w := newTable(t, slots, New(treeOf(t, q("a", guarantee, inOrder(o)), q("b", (slots-guarantee)/2)), policyOf(t, "elastic-fifo"), nil))
	r := &run{table: w, length: map[string]int{}, ends: map[string]int{}, order: o}
	w.job("b", "b", 1+rng.IntN(1+(slots-guarantee)/4), slots)
	r.length["b"] = 1e9
	return r
}

// without returns a run that continues without the jobs that wait behind one.
func (r *run) without(behind int) *run {
	out := &run{table: &table{t: r.t, p: r.p, s: r.s}, length: r.length, ends: map[string]int{}, order: r.order}
	for id, at := range r.ends {
		out.ends[id] = at
	}
	out.s.Jobs = nil
	for i := range r.s.Jobs {
		if i <= behind || r.s.Jobs[i].Count > 0 {
			out.s.Jobs = append(out.s.Jobs, r.s.Jobs[i])
		}
	}
	return out
}

// step ends, admits and starts jobs at one moment.
func (r *run) step(now int, arrivals ...policy.Job) {
	r.s.Jobs = slices.DeleteFunc(slices.Clone(r.s.Jobs), func(j policy.Job) bool {
		at, ok := r.ends[j.ID]
		return ok && at <= now
	})
	r.s.Jobs = append(r.s.Jobs, arrivals...)
	for range 4 { // a decision may be continued
		r.s.Now = float64(now)
		r.decide()
		for i := range r.s.Jobs {
			if j := &r.s.Jobs[i]; j.Count > 0 && j.FirstStart == 0 {
				j.FirstStart = float64(now)
				r.ends[j.ID] = now + r.length[j.ID]
			}
		}
	}
}

// head returns the first job of queue a that has not started, -1 if there is none.
func (r *run) head() int {
	return slices.IndexFunc(r.s.Jobs, func(j policy.Job) bool { return j.Queue == "a" && j.Count == 0 })
}

// start returns when a job starts, at the latest at the end.
func (r *run) start(id string, now int, arrivals map[int][]policy.Job, end int) int {
	for ; now < end; now++ {
		r.step(now, arrivals[now]...)
		if _, ok := r.ends[id]; ok {
			break
		}
	}
	return now
}

// The first waiting job of a queue starts no later than without the jobs behind it. To show
// that, the run is repeated from a random moment without the jobs that wait behind it or
// arrive later.
func TestPolicy_TheHeadIsNotDelayed(t *testing.T) {
	for _, o := range []queue.Order{queue.OrderPolicy, queue.OrderStrict, queue.OrderSkip} {
		t.Run(string(o), func(t *testing.T) {
			waited, overtaken, delayed := 0, 0, 0
			for seed := range uint64(150) {
				rng := rand.New(rand.NewPCG(seed, 5))
				r := newRun(t, rng, o)
				arrivals := map[int][]policy.Job{}
				for k := range 40 {
					at := k + rng.IntN(2)
					j := policy.Job{ID: fmt.Sprint("j", k), Queue: "a", Namespace: "a", Min: 1 + rng.IntN(12), Submit: float64(at), Preemptible: rng.IntN(3) == 0}
					j.Max = j.Min + rng.IntN(4)
					r.length[j.ID] = 1 + rng.IntN(12)
					arrivals[at] = append(arrivals[at], j)
				}
				fork := 5 + rng.IntN(25)
				for now := range fork {
					r.step(now, arrivals[now]...)
				}
				h := r.head()
				if h < 0 || r.s.Jobs[h].FirstStart > 0 {
					continue
				}
				id := r.s.Jobs[h].ID
				alone := r.without(h)
				want := alone.start(id, fork, nil, 80)
				if want == 80 {
					continue // it can never run
				}
				waited++
				got := r.start(id, fork, arrivals, 80)
				if slices.ContainsFunc(r.s.Jobs, func(j policy.Job) bool { return j.FirstStart >= float64(fork) && j.FirstStart < float64(got) }) {
					overtaken++
				}
				if got > want {
					delayed++
					if o != queue.OrderPolicy {
						t.Errorf("seed %d: %s starts at %d, and at %d without the jobs behind it", seed, id, got, want)
					}
				}
			}
			t.Logf("%d heads waited, %d were overtaken, %d delayed", waited, overtaken, delayed)
			must.Greater(t, 30, waited)
			must.Eq(t, o != queue.OrderStrict, overtaken > 10)
			must.Eq(t, o == queue.OrderPolicy, delayed > 0)
		})
	}
}
