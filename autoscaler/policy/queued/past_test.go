// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

const hour = 3600.0

// remembering is a table whose queues have accounts.
type remembering struct {
	*table
	tree   *queue.Tree
	ledger ledger.Ledger
	costs  map[string]float64 // of a slot, by queue; 1 if missing
}

func remember(t testing.TB, slots int, queues ...queue.Queue) *remembering {
	tree := treeOf(t, queues...)
	r := &remembering{table: newTable(t, slots, New(tree, policyOf(t, "elastic-fifo"), nil)), tree: tree, ledger: ledger.Ledger{}}
	r.s.Now = float64(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Unix())
	return r
}

// account charges what jobs hold until now, and from now on.
func (r *remembering) account() *queue.Layout {
	l := r.tree.Layout()
	for i := range r.s.Jobs {
		l.Leaf(r.s.Jobs[i].Queue, r.s.Jobs[i].Namespace)
	}
	use := make([]ledger.Use, len(l.Nodes))
	for i := range r.s.Jobs {
		j := &r.s.Jobs[i]
		u, n := &use[l.Leaf(j.Queue, j.Namespace)], j.Count*max(1, j.PerWorker)
		u.Slots, u.Cost = u.Slots+n, u.Cost+float64(n)*cmp.Or(r.costs[j.Queue], 1)
	}
	l.Remember(r.ledger.Past())
	l.Fit(r.s.Nodes[0].GPUs)
	r.ledger.Charge(l, use, r.s.Now, math.Inf(1))
	r.s.Past = r.ledger.Past()
	return l
}

// pass lets time pass with a decision whenever the ledger asks for one, and at the end.
func (r *remembering) pass(seconds float64, check func()) {
	end := r.s.Now + seconds
	for {
		r.decide()
		next := r.ledger.Next(r.account(), r.s.Now)
		if check != nil {
			check()
		}
		if next == 0 || next >= end {
			break
		}
		r.s.Now = next
		r.account()
	}
	r.s.Now = end
	r.account()
	r.decide()
	r.account()
}

func halfLife(hours float64) func(*queue.Queue) {
	return func(q *queue.Queue) { q.HalfLife = hours * hour }
}

// Of two queues, one used the pool alone for a week. Then the other borrows more until both
// have borrowed the same. Its guarantee is untouched all the time, and slots move in one
// direction only.
func TestPolicy_SharesOverTime(t *testing.T) {
	r := remember(t, 20, q("a", 4, halfLife(168)), q("b", 0, halfLife(168)))
	r.job("a1", "a", 1, 20)
	r.pass(168*hour, nil)
	must.Eq(t, "a1=20", r.counts())
	r.job("b1", "b", 1, 20)
	r.pass(1, nil)
	must.Eq(t, "a1=4 b1=16", r.counts()) // its guarantee, and no borrowed slot
	before := 4
	r.pass(10*168*hour, func() {
		must.GreaterEq(t, before, r.s.Jobs[0].Count)
		must.LessEq(t, before+1, r.s.Jobs[0].Count)
		before = r.s.Jobs[0].Count
	})
	must.Eq(t, "a1=12 b1=8", r.counts())
	a, b := r.ledger[queue.Key("a")], r.ledger[queue.Key("b")]
	must.InDelta(t, 8, a.Mean, 0.5)
	must.InDelta(t, 8, b.Mean, 0.5)
}

// Two queues want all slots of a pool, and their slots have different costs. The costs of
// their borrowed slots become about equal. Slots never move in large steps, however large
// the costs are.
func TestPolicy_SharesByCost(t *testing.T) {
	for name, tc := range map[string]struct{ a, b, low, high float64 }{
		"equal":      {1, 1, 50, 50},
		"all dear":   {1000, 1000, 50, 50},
		"all cheap":  {0.001, 0.001, 50, 50},
		"one dearer": {4, 1, 21, 26}, // 20 would be equal by cost
		"extremes":   {1000, 0.001, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := remember(t, 100, q("a", 0, halfLife(24)), q("b", 0, halfLife(24)))
			r.costs = map[string]float64{"a": tc.a, "b": tc.b}
			r.job("a1", "a", 1, 100, preemptible)
			r.job("b1", "b", 1, 100, preemptible)
			r.pass(60, nil)
			before := r.s.Jobs[0].Count
			r.pass(20*24*hour, func() {
				now := r.s.Jobs[0].Count
				must.LessEq(t, 7, max(now-before, before-now), must.Sprintf("from %d to %d", before, now))
				before = now
			})
			must.Between(t, tc.low, float64(r.s.Jobs[0].Count), tc.high)
		})
	}
}

// A hundred quick submissions get no more than the share of their queue, all at once or one
// after the other: the division counts the slots that it assigns.
func TestPolicy_QuickSubmissions(t *testing.T) {
	for name, at := range map[string]int{"at once": 100, "one by one": 1} {
		for _, mayBeSuspended := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", mayBeSuspended), func(t *testing.T) {
				r := remember(t, 40, q("a", 0, halfLife(168)), q("b", 0, halfLife(168)))
				kind := func(j *policy.Job) { j.Preemptible = mayBeSuspended }
				r.job("b1", "b", 1, 40, kind)
				r.pass(hour, nil)
				for k := range 100 {
					r.job(fmt.Sprint("a", k), "a", 1, 1, kind)
					if k%at == 0 || k == 99 {
						r.decide()
					}
				}
				r.decide()
				must.Between(t, 20, 40-r.s.Jobs[0].Count, 21) // b used the pool for an hour
				r.pass(24*hour, nil)
				must.Between(t, 20, 40-r.s.Jobs[0].Count, 21)
			})
		}
	}
}

// A job that is suspended and admitted again is charged once for the slots that it holds.
func TestPolicy_ReadmissionIsChargedOnce(t *testing.T) {
	r := remember(t, 8, q("a", 0, halfLife(24)), q("b", 8))
	r.job("a1", "a", 8, 8, preemptible)
	for range 20 {
		r.pass(hour, nil)
		must.Eq(t, 8, r.s.Jobs[0].Count)
		r.job("b1", "b", 1, 8)
		r.pass(hour, nil)
		must.Eq(t, 0, r.s.Jobs[0].Count)
		r.s.Jobs = r.s.Jobs[:1]
	}
	want := 0.0
	for k := range 20 {
		at := float64(2*k) - 39 // from so many hours ago, for an hour
		want += 8 * (math.Exp2((at)/24) - math.Exp2((at-1)/24))
	}
	must.InDelta(t, want, r.ledger[queue.Key("a")].Mean, 0.01)
}

// One slot alternates between two queues with equal rights, at most once per step.
func TestPolicy_OneSlotIsSharedOverTime(t *testing.T) {
	r := remember(t, 1, q("a", 0, halfLife(64)), q("b", 0, halfLife(64)))
	r.job("a1", "a", 1, 1, preemptible)
	r.job("b1", "b", 1, 1, preemptible)
	held, changes, last := 0.0, 0, r.s.Now
	holder := 0
	r.pass(1000*hour, func() {
		if holder == 0 {
			held += r.s.Now - last
		}
		if now := r.s.Jobs[1].Count; now != holder {
			holder, changes = now, changes+1
		}
		last = r.s.Now
	})
	must.Between(t, 450, held/hour, 550)
	must.Between(t, 10, changes, 1000)
}

// TestPolicy_Budget checks the slots and the reasons of jobs in a queue beyond its budget
// of 10 slot-hours, next to another queue that may want slots.
func TestPolicy_Budget(t *testing.T) {
	const spent = `budget: queue "a" has used 40 of the 10 slot-hours of its budget for this month; until 2026-12-01 UTC it gets `
	for name, tc := range map[string]struct {
		stop        bool
		preemptible bool
		other       int // slots that the other queue wants
		counts      string
		second      string // reason of a second job of the queue
	}{
		"it borrows what is left":      {other: 4, preemptible: true, counts: "a1=6 b1=4"},
		"no one else wants anything":   {preemptible: true, counts: "a1=10"},
		"others want all":              {other: 10, preemptible: true, counts: "a1=0 b1=10", second: spent + "only what no other queue wants"},
		"a minimum that stays":         {other: 10, counts: "a1=2 b1=8", second: spent + "only what no other queue wants"},
		"it stops":                     {stop: true, preemptible: true, counts: "a1=0", second: spent + "no slots"},
		"it stops, except its minimum": {stop: true, counts: "a1=2", second: spent + "no slots"},
	} {
		t.Run(name, func(t *testing.T) {
			r := remember(t, 10, q("a", 6, func(q *queue.Queue) { q.Budget = &queue.Budget{SlotHours: 10, Per: queue.Month, Stop: tc.stop} }), q("b", 0))
			r.job("a1", "a", 2, 10, func(j *policy.Job) { j.Preemptible = tc.preemptible })
			r.decide()
			r.account()
			r.s.Now += 4 * hour
			r.account()
			if tc.other > 0 {
				r.job("b1", "b", 1, tc.other)
			}
			r.decide()
			must.Eq(t, tc.counts, r.counts())
			if r.s.Jobs[0].Count < 10 {
				must.StrContains(t, r.reason("a1"), `slot-hours of its budget`)
				must.True(t, r.last.Allocations[0].Reclaimed)
			}
			r.job("a2", "a", 2, 4)
			r.decide()
			must.StrHasPrefix(t, tc.second, r.reason("a2"))
			if tc.second != "" {
				must.Eq(t, waiting.Budget, r.last.Allocations[len(r.s.Jobs)-1].Wait)
				must.Zero(t, r.s.Jobs[len(r.s.Jobs)-1].Count)
			}
			t.Log("the next month")
			r.s.Now = float64(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).Unix())
			r.account()
			r.decide()
			must.GreaterEq(t, 6, r.s.Jobs[0].Count+r.s.Jobs[len(r.s.Jobs)-1].Count)
		})
	}
}

// If the shares of all queues are too small for their gangs, one gang gets the slots of
// several shares. Its queue must be within its budget, however long a gang beyond its
// budget has waited.
func TestPolicy_GangsBeyondTheBudgetComeLast(t *testing.T) {
	spend := func(q *queue.Queue) { q.Budget = &queue.Budget{SlotHours: 1, Per: queue.Month} }
	r := remember(t, 10, q("a", 0, spend), q("b", 0), q("c", 0))
	r.s.Past = map[string]queue.Past{queue.Key("a"): {Spent: 2}}
	for k, name := range []string{"a", "b", "c"} {
		r.job(name+"1", name, 6, 6, preemptible, func(j *policy.Job) { j.Submit = float64(k + 1) })
	}
	must.Eq(t, "a1=0 b1=6 c1=0", r.decide().counts())
	must.StrHasPrefix(t, "budget: ", r.reason("a1"))
	must.StrHasPrefix(t, "no-room: ", r.reason("c1"))
}

// A queue stops exactly when its budget is spent: not earlier, and not only at the next
// decision about another queue.
func TestPolicy_BudgetIsSpentOnTime(t *testing.T) {
	r := remember(t, 10, q("a", 0, func(q *queue.Queue) { q.Budget = &queue.Budget{SlotHours: 50, Per: queue.Week, Stop: true} }), q("b", 0))
	r.job("a1", "a", 1, 10, preemptible)
	r.s.Now += 24 * hour // Monday
	begin, ended := r.s.Now, 0.0
	r.pass(7*24*hour-1, func() {
		if r.s.Jobs[0].Count == 0 && ended == 0 {
			ended = r.s.Now
		}
	})
	must.InDelta(t, 5*hour, ended-begin, 1)
	must.InDelta(t, 50, r.ledger[queue.Key("a")].Spent, 0.01)
	r.pass(2, nil)
	must.Eq(t, 10, r.s.Jobs[0].Count)
}

// Queues, jobs, half-lives and budgets are random. A queue within its budget gets its
// guarantee if it wants it, no slot stays free that someone may use, no guarantee is out of
// reach, and slots move only at an event or at a step of time.
func TestPolicy_PromisesOverTime(t *testing.T) {
	for seed := range uint64(60) {
		c := &cluster{rng: rand.New(rand.NewPCG(seed, 6)), timed: true}
		slots := 4 + c.rng.IntN(60)
		c.tree = treeOf(t, c.some(slots, slots, 2)...)
		c.table = newTable(t, slots, New(c.tree, policyOf(t, "elastic-fifo"), nil))
		r := &remembering{table: c.table, tree: c.tree, ledger: ledger.Ledger{}}
		for range 25 {
			r.account()
			c.happen(false)
			r.s.Now += 1e5 * c.rng.Float64()
			r.account()
			c.decide()
			counts := c.counts()
			l, used, firm := c.uses()
			l.Remember(r.s.Past)
			wanted := c.wanted(l)
			for n, node := range l.Nodes[1:] {
				if !anySpent(l, n+1) {
					must.GreaterEq(t, min(node.Guarantee, wanted[n+1]), used[n+1], must.Sprintf("seed %d: guarantee of %s", seed, node.Name))
				}
				if node.Stopped {
					must.Eq(t, firm[n+1], used[n+1], must.Sprintf("seed %d: %s has no budget", seed, node.Name))
				}
			}
			_, inReach := l.Reserve(r.s.Nodes[0].GPUs, firm, true).Fits(0, 0)
			must.True(t, inReach)
			if used[0] < r.s.Nodes[0].GPUs && !anySpent(l, 0) {
				must.Eq(t, wanted[0], used[0], must.Sprintf("seed %d: unused slots", seed))
			}
			must.Eq(t, counts, c.decide().counts(), must.Sprintf("seed %d: moved without an event", seed))
			r.account()
			must.Eq(t, counts, c.decide().counts(), must.Sprintf("seed %d: moved because it was charged", seed))
		}
	}
}

// anySpent reports whether a node or one inside it is beyond its budget.
func anySpent(l *queue.Layout, n int) bool {
	return l.Nodes[n].Spent > 0 || slices.ContainsFunc(l.Nodes[n].Children, func(c int) bool { return anySpent(l, c) })
}

// remembers gives a queue a half-life and a budget, or not.
func (c *cluster) remembers(q *queue.Queue) {
	if c.rng.IntN(3) > 0 {
		q.HalfLife = hour * math.Exp(6*c.rng.Float64())
	}
	if c.rng.IntN(3) == 0 {
		per := []queue.Period{queue.Day, queue.Week, queue.Month}[c.rng.IntN(3)]
		q.Budget = &queue.Budget{SlotHours: 1000 * c.rng.Float64(), Per: per, Stop: c.rng.IntN(2) == 0}
	}
}
