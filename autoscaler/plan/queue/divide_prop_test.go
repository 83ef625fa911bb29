// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
)

// random returns a tree of up to three levels below a pool with so many slots.
func random(rng *rand.Rand, slots int) []Queue {
	n := 0
	var some func(guarantee, depth int) []Queue
	some = func(guarantee, depth int) (out []Queue) {
		for range 1 + rng.IntN(4) {
			n++
			q := Queue{Name: fmt.Sprint("q", n), Weight: 1 + rng.IntN(3*WeightUnit)}
			if rng.IntN(3) > 0 {
				q.Guarantee = rng.IntN(guarantee + 1)
				guarantee -= q.Guarantee
			}
			if rng.IntN(3) == 0 {
				q.Limit = q.Guarantee + 1 + rng.IntN(slots)
			}
			if depth > 0 && rng.IntN(2) == 0 {
				q.Queues = some(q.Guarantee, depth-1)
			}
			out = append(out, q)
		}
		return out
	}
	return some(slots+slots/8, 2) // sometimes more is guaranteed than there is
}

// situation is a tree with demand, and with firm slots that Reserve has admitted.
type situation struct {
	*Layout
	slots  int
	leaves []int
	demand []Demand
}

func situationOf(t *testing.T, rng *rand.Rand) *situation {
	s := &situation{slots: 1 + rng.IntN(100)}
	s.Layout = tree(t, random(rng, s.slots)).Layout()
	s.Fit(s.slots)
	remembers := rng.IntN(2) == 0
	for n := range s.Nodes {
		if remembers && rng.IntN(3) > 0 {
			s.Nodes[n].Past = rng.IntN(pastWeight * s.slots * WeightUnit)
		}
		if len(s.Nodes[n].Children) == 0 {
			s.leaves = append(s.leaves, n)
		}
	}
	s.demand = make([]Demand, len(s.Nodes))
	r := s.Reserve(s.slots, nil, true)
	for range rng.IntN(10) {
		leaf, n := s.leaves[rng.IntN(len(s.leaves))], 1+rng.IntN(8)
		if _, ok := r.Fits(leaf, n); ok {
			r.Add(leaf, n)
			s.demand[leaf].Firm += n
		}
	}
	for _, leaf := range s.leaves {
		s.wish(rng, leaf)
	}
	return s
}

// wish changes what a leaf wants.
func (s *situation) wish(rng *rand.Rand, leaf int) {
	s.demand[leaf].Wanted = s.demand[leaf].Firm
	if rng.IntN(4) > 0 {
		s.demand[leaf].Wanted += rng.IntN(s.slots + 1)
	}
}

// capped reports whether a node or one above it, below a given one, is at its limit.
func (s *situation) capped(shares []int, n, below int) bool {
	full := false
	s.Path(n, func(n int) bool {
		full = full || n != below && s.Nodes[n].Limit > 0 && shares[n] >= s.Nodes[n].Limit
		return n != below && !full
	})
	return full
}

func each(t *testing.T, check func(t *testing.T, rng *rand.Rand, s *situation)) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		check(t, rng, situationOf(t, rng))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Totals and limits hold, no queue gets more than it wants, and firm slots stay.
func TestDivide_Totals(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, s *situation) {
		shares := s.Divide(s.slots, s.demand)
		must.LessEq(t, s.slots, shares[0])
		for n, node := range s.Nodes {
			sum := 0
			for _, c := range node.Children {
				sum += shares[c]
			}
			if len(node.Children) > 0 {
				must.Eq(t, shares[n], sum)
			}
			if node.Limit > 0 {
				must.LessEq(t, node.Limit, shares[n])
			}
		}
		for _, leaf := range s.leaves {
			must.LessEq(t, s.demand[leaf].Wanted, shares[leaf])
			must.GreaterEq(t, s.demand[leaf].Firm, shares[leaf])
		}
	})
}

// Each queue that wants its guarantee gets it, on every level of the tree.
func TestDivide_Guarantees(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, s *situation) {
		shares, claims := s.Divide(s.slots, s.demand), s.claims(s.slots, s.demand)
		for n, node := range s.Nodes[1:] {
			must.GreaterEq(t, min(node.Guarantee, claims[n+1].wanted), shares[n+1])
		}
	})
}

// No slot stays free that some queue could use.
func TestDivide_LendsAll(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, s *situation) {
		shares := s.Divide(s.slots, s.demand)
		if shares[0] == s.slots {
			return
		}
		for _, leaf := range s.leaves {
			must.True(t, shares[leaf] == s.demand[leaf].Wanted || s.capped(shares, leaf, 0), must.Sprintf("leaf %d", leaf))
		}
	})
}

// amount returns what counts for a node if it has so many slots: what it borrows, and its
// past.
func (s *situation) amount(n, slots int) int {
	return (slots-s.Nodes[n].Guarantee)*WeightUnit + s.Nodes[n].Past
}

// Take two siblings, one of which wants another slot. The other has not borrowed more in
// proportion to its weight, its past included, than the first would have with that slot.
func TestDivide_BorrowsByWeight(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, s *situation) {
		shares, claims := s.Divide(s.slots, s.demand), s.claims(s.slots, s.demand)
		for _, node := range s.Nodes {
			for _, a := range node.Children {
				for _, b := range node.Children {
					if shares[a] >= claims[a].wanted || shares[b] <= claims[b].guaranteed {
						continue
					}
					must.LessEq(t, s.amount(a, shares[a]+1)*s.Nodes[b].Weight, s.amount(b, shares[b])*s.Nodes[a].Weight)
				}
			}
		}
	})
}

// The demands of queues change one after the other. A queue that gains slots of another one
// has then borrowed no more in proportion to its weight than the other would have with one
// slot more. Until the next change nothing moves, even if started jobs have made slots firm.
func TestDivide_TakesBackOnce(t *testing.T) {
	each(t, func(t *testing.T, rng *rand.Rand, s *situation) {
		before := s.Divide(s.slots, s.demand)
		for range 10 {
			s.wish(rng, s.leaves[rng.IntN(len(s.leaves))])
			after := s.Divide(s.slots, s.demand)
			claims := s.claims(s.slots, s.demand)
			for _, node := range s.Nodes {
				for _, taker := range node.Children {
					for _, giver := range node.Children {
						if after[taker] <= max(before[taker], claims[taker].guaranteed) || after[giver] >= before[giver] || after[giver] == claims[giver].wanted {
							continue
						}
						must.LessEq(t, s.amount(giver, after[giver]+1)*s.Nodes[taker].Weight, s.amount(taker, after[taker])*s.Nodes[giver].Weight)
					}
				}
			}
			started := slices.Clone(s.demand)
			r := s.Reserve(s.slots, firm(started), true)
			for _, leaf := range s.leaves {
				if n := rng.IntN(after[leaf] - started[leaf].Firm + 1); n > 0 {
					if _, ok := r.Fits(leaf, n); ok {
						r.Add(leaf, n)
						started[leaf].Firm += n
					}
				}
			}
			must.Eq(t, after, s.Divide(s.slots, started))
			before = after
		}
	})
}

func firm(demand []Demand) []int {
	out := make([]int, len(demand))
	for n := range demand {
		out[n] = demand[n].Firm
	}
	return out
}

// Rounding loses no small shares, and the same input leads to the same division.
func TestDivide_SmallShares(t *testing.T) {
	var queues []Queue
	for i := range 100 {
		queues = append(queues, Queue{Name: fmt.Sprint("q", i), Weight: 1 + i%2})
	}
	queues[0].Weight = MostWeight
	l := tree(t, queues).Layout()
	demand := make([]Demand, len(l.Nodes))
	for n := range demand {
		demand[n].Wanted = 1000
	}
	shares := l.Divide(2000, demand)
	sum := 0
	for n := range l.Nodes[0].Children {
		sum += shares[n+1]
		must.Greater(t, 0, shares[n+1])
	}
	must.Eq(t, 2000, sum)
	must.Eq(t, shares, l.Divide(2000, demand))
}
