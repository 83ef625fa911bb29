// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

const (
	hour = 3600.0
	day  = 24 * hour
)

// start is the beginning of a Sunday and of a month.
var start = float64(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Unix())

// books is a ledger with its queues.
type books struct {
	t *testing.T
	Ledger
	tree   *queue.Tree
	now    float64
	held   map[string]Use // by queue
	spaces []string       // namespaces outside of all queues that have jobs
}

func open(t *testing.T, queues ...queue.Queue) *books {
	for i := range queues {
		queues[i].Weight = queue.WeightUnit
	}
	tree, problems := queue.New(queues)
	must.SliceEmpty(t, problems)
	return &books{t: t, Ledger: Ledger{}, tree: tree, now: start, held: map[string]Use{}}
}

func (b *books) layout() *queue.Layout {
	l := b.tree.Layout()
	for name := range b.held {
		l.Leaf(name, "")
	}
	for _, ns := range b.spaces {
		l.Leaf("", ns)
	}
	l.Remember(b.Past())
	l.Fit(1000)
	return l
}

// pass lets time pass, and charges at the end.
func (b *books) pass(seconds float64) {
	b.now += seconds
	l := b.layout()
	use := make([]Use, len(l.Nodes))
	for name, u := range b.held {
		use[l.Leaf(name, "")] = u
	}
	for _, ns := range b.spaces {
		use[l.Leaf("", ns)] = Use{1, 1}
	}
	b.Charge(l, use, b.now, Longest)
}

// holds changes what a queue holds, from now on.
func (b *books) holds(name string, slots int, cost float64) {
	b.held[name] = Use{slots, cost * float64(slots)}
	b.pass(0)
}

// passHours lets hours pass one by one, so that none is a gap.
func (b *books) passHours(n int) {
	for range n {
		b.pass(hour)
	}
}

func (b *books) of(name string) *Account {
	if a := b.Ledger[queue.Key(name)]; a != nil {
		return a
	}
	return &Account{}
}

// near compares amounts.
func near(t *testing.T, want, got float64) {
	t.Helper()
	must.InDelta(t, want, got, 1e-6*max(1, math.Abs(want)))
}

// The mean of the borrowed slots follows them with the half-life, up and down. Guaranteed
// slots cost nothing.
func TestCharge_Decays(t *testing.T) {
	b := open(t, queue.Queue{Name: "a", Guarantee: 4, HalfLife: 24 * hour}, queue.Queue{Name: "b", Guarantee: 4, HalfLife: 24 * hour})
	b.holds("a", 12, 1)
	b.holds("b", 4, 1)
	b.passHours(24)
	near(t, 4, b.of("a").Mean) // half of 8
	near(t, 0, b.of("b").Mean)
	b.passHours(24)
	near(t, 6, b.of("a").Mean)
	near(t, 6*24/math.Ln2, b.of("a").Decayed())
	b.holds("a", 4, 1)
	b.passHours(48)
	near(t, 1.5, b.of("a").Mean)
}

// No account is kept forever: that of a queue whose jobs ended decays and is dropped in the
// end, even if the queue was removed.
func TestCharge_KeepsNothingForEver(t *testing.T) {
	b := open(t, queue.Queue{Name: "a", HalfLife: hour}, queue.Queue{Name: queue.Any, HalfLife: hour})
	b.spaces = []string{"x", "y"}
	b.holds("a", 8, 1)
	b.passHours(10)
	must.MapLen(t, 3, b.Ledger)
	b.spaces = nil
	b.holds("a", 0, 0)
	b.passHours(10)
	must.Less(t, 0.01, b.of("a").Mean)
	must.Less(t, 10, b.of("a").Counts.Cost)
	b.passHours(20)
	must.MapEmpty(t, b.Ledger)

	b.holds("a", 8, 1)
	b.passHours(1)
	b.tree, _ = queue.New(nil)
	b.held = map[string]Use{}
	b.passHours(40)
	must.MapEmpty(t, b.Ledger)
}

// A period counts once, no matter how often it is charged. A job that is suspended and
// admitted again is charged for the slots that it held.
func TestCharge_CountsOnce(t *testing.T) {
	queues := func() []queue.Queue {
		return []queue.Queue{{Name: "a", HalfLife: 24 * hour, Budget: &queue.Budget{SlotHours: 1e6, Per: queue.Month}}}
	}
	once, often := open(t, queues()...), open(t, queues()...)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		n := rng.IntN(3) * 4 // suspended, admitted, grown
		seconds := math.Round(hour * rng.Float64())
		once.holds("a", n, 1)
		once.pass(seconds)
		often.holds("a", n, 1)
		for at := 0.0; at < seconds; {
			next := min(seconds-at, math.Ceil(100*rng.Float64()))
			often.pass(next)
			often.pass(0)
			at += next
		}
	}
	near(t, once.of("a").Mean, often.of("a").Mean)
	near(t, once.of("a").Spent, often.of("a").Spent)
	must.Greater(t, 1, once.of("a").Spent)
}

// A slot that is borrowed for a minute counts even with a half-life of a year and a charge
// every second. Many small charges add up to one large one.
func TestCharge_SmallUseCounts(t *testing.T) {
	b := open(t, queue.Queue{Name: "a", HalfLife: 365 * day})
	b.holds("a", 1, 1)
	for range 60 {
		b.pass(1)
	}
	b.holds("a", 0, 0)
	near(t, 60*math.Ln2/(365*day), b.of("a").Mean)
	near(t, 1.0/60, b.of("a").Decayed())
	must.Greater(t, 0, b.of("a").Mean)
	for range 1000 { // each far below a thousandth of a slot
		b.holds("a", 1, 1)
		b.pass(60)
		b.holds("a", 0, 0)
		b.pass(hour / 60)
	}
	must.Greater(t, 0, b.of("a").Counts.Cost)
}

// A queue and a namespace of the same name have separate accounts.
func TestCharge_TwoOfOneName(t *testing.T) {
	b := open(t, queue.Queue{Name: "x", Namespaces: []string{"other"}, HalfLife: 24 * hour}, queue.Queue{Name: queue.Any, HalfLife: 24 * hour})
	b.spaces = []string{"x"}
	b.holds("x", 9, 1)
	b.passHours(24)
	must.MapLen(t, 2, b.Ledger)
	near(t, 4.5, b.of("x").Mean)
	near(t, 0.5, b.Ledger["namespace/x/"].Mean)
}

// Slots count by their cost, for their queue and those around it. Slots within the
// guarantee count only for the budget.
func TestCharge_Costs(t *testing.T) {
	budget := &queue.Budget{SlotHours: 1e6, Per: queue.Month}
	b := open(t, queue.Queue{Name: "a", Guarantee: 6, HalfLife: 24 * hour, Budget: budget, Queues: []queue.Queue{
		{Name: "b", Weight: 1, HalfLife: 24 * hour}, {Name: "c", Weight: 1, Budget: budget},
	}})
	b.held["c"] = Use{4, 4}
	b.holds("b", 8, 4)
	b.passHours(24)
	near(t, 16, b.of("b").Mean)
	near(t, 4, b.of("b").Slots)
	near(t, 24*(32+4), b.of("a").Spent)
	near(t, 24*4, b.of("c").Spent)
	near(t, 0.5*36*6/12, b.of("a").Mean) // 6 of its 12 slots are borrowed, at the mean cost
}

// A budget begins again with each calendar period, in UTC, to the second.
func TestCharge_Periods(t *testing.T) {
	b := open(t, queue.Queue{Name: "d", Budget: &queue.Budget{SlotHours: 100, Per: queue.Day}}, queue.Queue{Name: "w", Budget: &queue.Budget{SlotHours: 100, Per: queue.Week}},
		queue.Queue{Name: "m", Budget: &queue.Budget{SlotHours: 100, Per: queue.Month}})
	for _, name := range []string{"d", "w", "m"} {
		b.holds(name, 1, 1)
	}
	spent := func() [3]float64 { return [3]float64{b.of("d").Spent, b.of("w").Spent, b.of("m").Spent} }
	b.passHours(23)
	b.pass(1800)
	must.Eq(t, [3]float64{23.5, 23.5, 23.5}, spent())
	b.pass(hour) // half of it is on Monday
	must.Eq(t, [3]float64{0.5, 0.5, 24.5}, spent())
	b.passHours(30*24 - 25)
	must.Eq(t, 30*24-0.5, b.of("m").Spent)
	b.pass(hour)
	must.Eq(t, 0.5, b.of("m").Spent)

	t.Log("a queue that holds nothing has a new budget, too")
	b.holds("d", 0, 0)
	must.Greater(t, 0, b.of("d").Spent)
	b.passHours(24)
	must.Zero(t, b.of("d").Spent)

	t.Log("a budget that is taken out and written again is what it was")
	kept, with := b.of("m").Spent, b.tree
	b.tree, _ = queue.New([]queue.Queue{{Name: "m", Weight: 1}})
	b.held = map[string]Use{"m": {}}
	b.passHours(2)
	b.tree = with
	b.pass(0)
	must.GreaterEq(t, kept, b.of("m").Spent)
}

// A queue beyond its budget has no guarantee, so all its slots are borrowed.
func TestCharge_BeyondTheBudget(t *testing.T) {
	b := open(t, queue.Queue{Name: "a", Guarantee: 8, HalfLife: 24 * hour, Budget: &queue.Budget{SlotHours: 80, Per: queue.Month}})
	b.holds("a", 8, 1)
	b.passHours(10)
	near(t, 0, b.of("a").Mean)
	b.passHours(24)
	must.Greater(t, 3.5, b.of("a").Mean)
}

// TestCharge_Gaps loads a saved ledger after some time without an autoscaler.
func TestCharge_Gaps(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after int
		gap           float64
		want          float64 // slot-hours
	}{
		"it holds the same":     {8, 8, 600, 8.0 / 6},
		"it holds more":         {4, 8, 600, 4.0 / 6},
		"it holds less":         {8, 2, 600, 2.0 / 6},
		"it began meanwhile":    {0, 8, 600, 0},
		"it ended meanwhile":    {8, 0, 600, 0},
		"away for a day":        {8, 8, day, 8},
		"the clock is behind":   {8, 8, -600, 0},
		"the clock was wrong":   {8, 8, -10 * day, 0},
		"away for half a month": {8, 8, 14 * day, 8},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, queue.Queue{Name: "a", Budget: &queue.Budget{SlotHours: 1e6, Per: queue.Month}, HalfLife: day})
			b.now = start + 15*day
			b.holds("a", 1, 1)
			b.holds("a", tc.before, 1)
			b.save()
			b.now += tc.gap
			b.holds("a", tc.after, 1)
			near(t, tc.want, b.of("a").Spent)
			if tc.after > 0 && tc.gap > 0 {
				near(t, min(float64(tc.before), float64(tc.after))*(1-math.Exp2(-min(tc.gap, hour)/day)), b.of("a").Mean)
			}
			t.Log("from then on, everything counts")
			spent := b.of("a").Spent
			b.passHours(2)
			if tc.gap >= 0 || tc.gap < -day {
				near(t, spent+float64(2*tc.after), b.of("a").Spent)
			} else {
				near(t, spent+float64(tc.after)*(2-600/hour), b.of("a").Spent) // up to the old At, it has counted
			}
		})
	}
}

// save replaces the ledger by what another process reads of it.
func (b *books) save() {
	text, err := json.Marshal(b.Ledger)
	must.NoError(b.t, err)
	b.Ledger = Ledger{}
	must.NoError(b.t, json.Unmarshal(text, &b.Ledger))
}

// Between steps, the values that a division uses do not change. At a step, they change by a
// small part of the borrowed slots. Saving and loading at any time makes no difference.
func TestCharge_ChangesInSteps(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 4))
		halfLife := math.Exp(math.Log(hour) + rng.Float64()*math.Log(24*30))
		b := open(t, queue.Queue{Name: "a", HalfLife: halfLife})
		b.holds("a", 100, 1)
		counts, at := queue.Past{}, b.now
		for range 300 {
			b.held["a"] = Use{100 * rng.IntN(2), 0}
			if b.held["a"].Slots > 0 {
				b.held["a"] = Use{100, 100}
			}
			b.pass(rng.Float64() * step(halfLife) / 2)
			if rng.IntN(5) == 0 {
				b.save()
			}
			now := b.of("a").Counts
			if math.Floor(b.now/step(halfLife)) == math.Floor(at/step(halfLife)) {
				must.Eq(t, counts, now)
			}
			must.LessEq(t, 100_000*(1-math.Exp2(-2*step(halfLife)/halfLife))+1, math.Abs(float64(now.Cost-counts.Cost)))
			counts, at = now, b.now
		}
	}
}

// Next returns the time at which a budget is spent, the period ends, or Counts is renewed.
func TestNext(t *testing.T) {
	b := open(t, queue.Queue{Name: "a", Budget: &queue.Budget{SlotHours: 8, Per: queue.Day}})
	must.Zero(t, b.Next(b.layout(), b.now))
	b.holds("a", 4, 1)
	must.Eq(t, start+2*hour, b.Next(b.layout(), b.now))
	b.passHours(2)
	must.Eq(t, start+day, b.Next(b.layout(), b.now))
	b = open(t, queue.Queue{Name: "a", HalfLife: 64 * 100})
	b.now = 1000 * 100
	b.holds("a", 4, 1)
	must.Eq(t, 1001*100, b.Next(b.layout(), b.now))
	b.now += 99
	must.Eq(t, 1001*100, b.Next(b.layout(), b.now))
}

// The size of a ledger is bounded, whatever names the namespaces have.
func TestCharge_Bounded(t *testing.T) {
	b := open(t, queue.Queue{Name: queue.Any, HalfLife: hour})
	for i := range mostAccounts + 100 {
		b.spaces = append(b.spaces, fmt.Sprint("n", i))
	}
	b.pass(0)
	must.MapLen(t, mostAccounts, b.Ledger)
}
