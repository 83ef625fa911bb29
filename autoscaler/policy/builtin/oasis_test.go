// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// thorough is buy without giving up early.
func (m *market) thorough(c *candidate) (oasisPlan, bool) {
	left := c.guess()
	fast := c.speed(c.high)
	for n := c.low; n > 0 && n < c.high; n = 2 * n {
		fast = max(fast, c.speed(c.floor(n)))
	}
	best, most := oasisPlan{}, 0.0
	for slots := 1; ; slots = min(2*slots, len(m.used)) {
		if m.utility(c, left, left/fast, slots)-left*m.floor*float64(c.per) > most {
			cost, end, ok := m.cheapest(c, left, slots, func(float64, int) bool { return false })
			if payoff := m.utility(c, left, left/fast, end) - cost; ok && payoff > most {
				most, best = payoff, oasisPlan{First: m.first, Workers: slices.Clone(m.buys[:end])}
			}
		}
		if slots == len(m.used) {
			return best, most > 0
		}
	}
}

// TestOasis_BuysTheSame compares schedules with those of a search that never gives up.
func TestOasis_BuysTheSame(t *testing.T) {
	bought, refused := 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := oasis{Slot: 10 * float64(1+rng.IntN(200)), Slots: 1 + rng.IntN(64), Low: 0.01 + rng.Float64(), High: 2 + 20*rng.Float64()}
		s := crowd(1+rng.IntN(60), 8<<rng.IntN(7))
		for i := range s.Jobs {
			j := &s.Jobs[i]
			j.Weight, j.PerWorker, j.Remaining = 0.1+4*rng.Float64(), 1+rng.IntN(3), j.Remaining*rng.Float64()
		}
		_, pools := split(s)
		for _, p := range pools {
			m := newMarket(o, p, s.Now, int(s.Now/o.Slot))
			for _, c := range p.jobs {
				want, wanted := m.thorough(c)
				got, ok := m.buy(c)
				must.Eq(t, wanted, ok)
				must.Eq(t, want, got)
				if !ok {
					refused++
					continue
				}
				bought++
				m.reserve(c, got)
			}
		}
	}
	must.Greater(t, 100, bought)
	must.Greater(t, 100, refused)
}

// greedy are jobs that may take any number of a large cluster's GPUs for as long as there
// are slots, each worth it.
func greedy(jobs int) *policy.Snapshot {
	s := crowd(jobs, 100_000)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		j.Count, j.Max, j.Preferred, j.Remaining, j.Weight, j.Deadline = 0, 100_000, 1, 1e8, 1e9, 0
		j.Curve = speedup.NewCurve(speedup.Point{Size: 1, StepTime: 1, Samples: 30}, speedup.Point{Size: 100_000, StepTime: 1e-4, Samples: 30})
	}
	return s
}

// TestOasis_BoundsItsWork has too many jobs to examine in one second. Each job has its turn
// in a later decision.
func TestOasis_BoundsItsWork(t *testing.T) {
	p, err := Policies.Parse("oasis(slots=64, slot=100)")
	must.NoError(t, err)
	s := greedy(5000)
	for i := range s.Jobs {
		s.Jobs[i].Max, s.Jobs[i].Remaining = 400, 1.2e5 // which takes a few slots, and many steps in each
	}
	whole := &counting{Context: t.Context()}
	s.Context = whole
	d := p.Allocate(s)
	must.Len(t, 5000, d.Allocations)
	must.Less(t, 6*mostOffers, whole.asked)
	s.State = d.State
	first := load[oasisState](s)
	must.Len(t, 1, first.Next)
	must.NotEq(t, s.Jobs[0].ID, first.Next[0])
	s.State = p.Allocate(s).State
	must.NotEq(t, first.Next, load[oasisState](s).Next)
}

// TestFFDL_BoundsItsTable asks for dynamic programming with more jobs and GPUs than time
// and memory allow.
func TestFFDL_BoundsItsTable(t *testing.T) {
	s := greedy(5000)
	_, pools := split(s)
	admitted := pools[0].prefix(pools[0].jobs)
	must.Eq(t, "hull", ffdl{Method: "dp"}.method(pools[0], admitted))
	must.Eq(t, "greedy", ffdl{Method: "greedy"}.method(pools[0], admitted))
	_, pools = split(crowd(100, 512))
	must.Eq(t, "dp", ffdl{Method: "dp"}.method(pools[0], pools[0].prefix(pools[0].jobs)))
	_, err := Policies.Parse("ffdl(limit=300000001)")
	must.ErrorContains(t, err, "must be between 0 and 300000000")
}
