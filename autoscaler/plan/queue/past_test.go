// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestPeriod(t *testing.T) {
	at := func(text string) float64 {
		m, err := time.Parse(time.RFC3339, text)
		must.NoError(t, err)
		return float64(m.Unix())
	}
	for name, tc := range map[string]struct {
		per             Period
		now, start, end string
	}{
		"a day":                        {Day, "2026-11-28T23:59:59Z", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"},
		"a day in another zone":        {Day, "2026-11-28T23:30:00-01:00", "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"},
		"a week":                       {Week, "2026-11-28T12:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		"a week on Sunday":             {Week, "2026-11-29T12:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		"a week on Monday":             {Week, "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		"a month":                      {Month, "2026-11-28T12:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		"a month at the end of a year": {Month, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		"a short month":                {Month, "2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, at(tc.start), tc.per.Start(at(tc.now)))
			must.Eq(t, at(tc.end), tc.per.End(at(tc.now)))
			must.Eq(t, at(tc.start), tc.per.Start(at(tc.start)))
		})
	}
}

// Two queues, namespaces or direct jobs of a queue never share an account, even if their
// names are equal.
func TestLayout_Key(t *testing.T) {
	l := tree(t, []Queue{
		{Name: "a", Weight: 1, Queues: []Queue{{Name: "b", Weight: 1}}},
		{Name: "n", Weight: 1, PerNamespace: &Caps{}},
		{Name: "n/a", Weight: 1},
		{Name: "a/n", Weight: 1, PerNamespace: &Caps{}},
	}).Layout()
	for _, leaf := range [][2]string{{"a", "a"}, {"b", "a"}, {"n", "a"}, {"n", "b"}, {"n/a", "a"}, {"", "a"}, {"", "n"}, {"a/n", "b"}} {
		l.Leaf(leaf[0], leaf[1])
	}
	keys := map[string]int{}
	for n := range l.Nodes[1:] {
		keys[l.Key(n+1)]++
	}
	must.MapLen(t, len(l.Nodes)-1, keys)
	must.Eq(t, Key("a"), l.Key(l.byName["a"]))
}

// TestDivide_Past has one division per line: 41 slots between two queues of equal weight,
// of which the first is guaranteed 8.
func TestDivide_Past(t *testing.T) {
	for name, tc := range map[string]struct{ past, wanted, want [2]int }{
		"no past":                           {[2]int{}, [2]int{41, 41}, [2]int{25, 16}},
		"one borrowed 4 slots, on average":  {[2]int{4 * WeightUnit, 0}, [2]int{41, 41}, [2]int{17, 24}},
		"both borrowed the same":            {[2]int{9 * WeightUnit, 9 * WeightUnit}, [2]int{41, 41}, [2]int{25, 16}},
		"a guarantee is its, whatever was":  {[2]int{1000 * WeightUnit, 0}, [2]int{41, 41}, [2]int{8, 33}},
		"alone, it has all":                 {[2]int{1000 * WeightUnit, 0}, [2]int{41, 0}, [2]int{41, 0}},
		"what the other leaves":             {[2]int{1000 * WeightUnit, 0}, [2]int{41, 5}, [2]int{36, 5}},
		"a thousandth of a slot is counted": {[2]int{1, 0}, [2]int{41, 41}, [2]int{24, 17}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := tree(t, []Queue{
				{Name: "a", Guarantee: 8, Weight: WeightUnit, HalfLife: 3600}, {Name: "b", Weight: WeightUnit, HalfLife: 3600},
			})
			l := tr.Layout()
			l.Remember(map[string]Past{Key("a"): {Borrowed: tc.past[0], Cost: tc.past[0]}, Key("b"): {Borrowed: tc.past[1], Cost: tc.past[1]}})
			l.Fit(41)
			shares := l.Divide(41, []Demand{{}, {Wanted: tc.wanted[0]}, {Wanted: tc.wanted[1]}})
			must.Eq(t, tc.want, [2]int{shares[1], shares[2]})
		})
	}
}

// Only ratios of costs matter: the past of siblings counts for as many slots as they
// borrowed, divided between them by the cost of what each borrowed.
func TestRemember_Costs(t *testing.T) {
	for name, tc := range map[string]struct{ a, b, want [2]int }{
		"equal costs":       {[2]int{6000, 6000}, [2]int{2000, 2000}, [2]int{24000, 8000}},
		"all cost more":     {[2]int{6000, 600_000}, [2]int{2000, 200_000}, [2]int{24000, 8000}},
		"one costs more":    {[2]int{6000, 24_000}, [2]int{2000, 2000}, [2]int{29538, 2462}},
		"one borrowed none": {[2]int{6000, 24_000}, [2]int{}, [2]int{24000, 0}},
		"no one borrowed":   {},
		"out of all bounds": {[2]int{1e15, 1e18}, [2]int{}, [2]int{mostPast, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			l := tree(t, []Queue{{Name: "a", Weight: WeightUnit, HalfLife: 3600}, {Name: "b", Weight: WeightUnit, HalfLife: 3600}, {Name: "c", Weight: WeightUnit}}).Layout()
			l.Remember(map[string]Past{Key("a"): {Borrowed: tc.a[0], Cost: tc.a[1]}, Key("b"): {Borrowed: tc.b[0], Cost: tc.b[1]}, Key("c"): {Borrowed: 5, Cost: 5000}})
			must.Eq(t, tc.want, [2]int{l.Nodes[1].Past, l.Nodes[2].Past})
			must.Zero(t, l.Nodes[3].Past)
		})
	}
}

// A queue without a half-life has no past.
func TestRemember_WithoutHalfLife(t *testing.T) {
	l := tree(t, []Queue{{Name: "a", Weight: WeightUnit}}).Layout()
	l.Remember(map[string]Past{Key("a"): {Borrowed: 1000, Cost: 1000, Spent: 1e6}})
	must.Eq(t, []int{0, 0}, []int{l.Nodes[1].Past, l.Nodes[1].Spent})
}

// A queue with a past never takes precedence over one without, however small its weight.
func TestDivide_SmallWeightsDoNotGoFirst(t *testing.T) {
	l := tree(t, []Queue{{Name: "a", Weight: 1, HalfLife: 3600}, {Name: "b", Weight: WeightUnit, HalfLife: 3600}}).Layout()
	l.Remember(map[string]Past{Key("a"): {Borrowed: 1, Cost: 1}})
	must.Eq(t, []int{10, 0, 10}, l.Divide(10, []Demand{{}, {Wanted: 10}, {Wanted: 10}}))
	_, problems := New([]Queue{{Name: "a", HalfLife: 3600}})
	must.Len(t, 1, problems, must.Sprint("a weight of 0"))
}

// TestDivide_Budgets has some queues beyond their budgets. The queues within their budgets
// get as much as if the others wanted only the slots that cannot be taken from them. The
// others share the rest, or get nothing if their budget stops them.
func TestDivide_Budgets(t *testing.T) {
	each(t, func(t *testing.T, rng *rand.Rand, s *situation) {
		past := map[string]Past{}
		for n := range s.Nodes[1:] {
			if node := &s.Nodes[n+1]; rng.IntN(3) == 0 {
				node.Budget = &Budget{SlotHours: 10, Per: Month, Stop: rng.IntN(2) == 0}
				past[node.key] = Past{Spent: 20 * rng.Float64()}
			}
		}
		s.Remember(past)
		within := make([]Demand, len(s.Nodes))
		copy(within, s.demand)
		for n := range s.Nodes {
			if s.Nodes[n].Spent > 0 {
				must.Zero(t, s.Nodes[n].Guarantee)
				within[n].Wanted = within[n].Firm
			}
		}
		shares, alone := s.Divide(s.slots, s.demand), s.divide(s.slots, within)
		for _, leaf := range s.leaves {
			node := &s.Nodes[leaf]
			switch {
			case node.Spent == 0:
				must.Eq(t, alone[leaf], shares[leaf])
			case node.Stopped:
				must.Eq(t, s.demand[leaf].Firm, shares[leaf])
			default:
				must.GreaterEq(t, s.demand[leaf].Firm, shares[leaf])
				must.True(t, shares[0] == s.slots || shares[leaf] == s.demand[leaf].Wanted || s.capped(shares, leaf, 0))
			}
		}
		must.LessEq(t, s.slots, shares[0])
		for n := range s.Nodes[1:] { // what is above a queue stops it, too
			if up := s.Nodes[n+1].Parent; s.Nodes[up].Stopped {
				must.True(t, s.Nodes[n+1].Stopped)
			}
		}
	})
}

// A small change of the queues' past alone moves few slots: at most the sum of the changes,
// and one slot per queue for rounding.
func TestDivide_ChangesByLittle(t *testing.T) {
	each(t, func(t *testing.T, rng *rand.Rand, s *situation) {
		before := s.Divide(s.slots, s.demand)
		changes := make([]int, len(s.Nodes))
		for n := range s.Nodes[1:] {
			changes[n+1] = rng.IntN(3 * WeightUnit)
			s.Nodes[n+1].Past += changes[n+1]
		}
		after := s.Divide(s.slots, s.demand)
		for n, node := range s.Nodes {
			if before[n] != after[n] {
				continue // more moved above
			}
			moved, most := 0, len(node.Children)*WeightUnit
			for _, c := range node.Children {
				moved += max(0, after[c]-before[c])
				most += changes[c]
			}
			must.LessEq(t, most, moved*WeightUnit)
		}
	})
}
