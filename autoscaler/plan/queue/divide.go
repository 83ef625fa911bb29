// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

// Demand is how many slots a leaf could use.
type Demand struct {
	Firm   int // slots that cannot be taken from it
	Wanted int // all slots that it could use, including the firm ones
}

// Fit cuts the guarantees in proportion if they exceed the slots of the pool. So each
// queue loses the same part of its guarantee while nodes are gone.
func (l *Layout) Fit(slots int) {
	l.Nodes[0].Guarantee = slots
	for n := range l.Nodes {
		sum := 0
		for _, c := range l.Nodes[n].Children {
			sum += l.Nodes[c].Guarantee
		}
		if sum <= l.Nodes[n].Guarantee {
			continue
		}
		parts := make([]part, 0, len(l.Nodes[n].Children))
		for _, c := range l.Nodes[n].Children {
			g := l.Nodes[c].Guarantee
			parts = append(parts, part{weight: g, high: g})
		}
		for k, g := range fill(l.Nodes[n].Guarantee, parts) {
			l.Nodes[l.Nodes[n].Children[k]].Guarantee = g
		}
	}
}

// divide does what Divide does, but without regard to budgets.
func (l *Layout) divide(slots int, demand []Demand) []int {
	claims := l.claims(slots, demand)
	out := make([]int, len(l.Nodes))
	out[0] = min(slots, claims[0].wanted)
	for n := range l.Nodes {
		children := l.Nodes[n].Children
		parts := make([]part, 0, len(children))
		firm, guaranteed := 0, 0
		for _, c := range children {
			firm, guaranteed = firm+claims[c].firm, guaranteed+claims[c].guaranteed
		}
		for _, c := range children {
			node, claim := &l.Nodes[c], claims[c]
			switch {
			case firm > out[n]: // more was lost than anyone can give back
				parts = append(parts, part{weight: claim.firm, high: claim.firm})
			case guaranteed > out[n]:
				parts = append(parts, part{weight: node.Guarantee, low: claim.firm, high: claim.guaranteed})
			default:
				parts = append(parts, part{base: node.Guarantee*WeightUnit - node.Past, weight: node.Weight, low: claim.guaranteed, high: claim.wanted})
			}
		}
		for k, got := range fill(out[n], parts) {
			out[children[k]] = got
		}
	}
	return out
}

// claim is what a node asks for: firm ≤ guaranteed ≤ wanted.
type claim struct {
	firm       int
	guaranteed int // what it wants of guarantees, its own or those inside
	wanted     int // within the limits
}

// claims sums up the demand, from the leaves to the pool.
func (l *Layout) claims(slots int, demand []Demand) []claim {
	out := make([]claim, len(l.Nodes))
	for n := len(l.Nodes) - 1; n >= 0; n-- {
		node, c := &l.Nodes[n], &out[n]
		if len(node.Children) == 0 && n < len(demand) {
			*c = claim{demand[n].Firm, demand[n].Firm, max(demand[n].Firm, min(demand[n].Wanted, slots))}
		}
		if node.Limit > 0 {
			c.wanted = max(c.firm, min(c.wanted, node.Limit))
		}
		c.guaranteed = max(c.firm, min(c.wanted, max(c.guaranteed, node.Guarantee)))
		if node.Parent >= 0 {
			p := &out[node.Parent]
			p.firm, p.guaranteed, p.wanted = p.firm+c.firm, p.guaranteed+c.guaranteed, p.wanted+c.wanted
		}
	}
	return out
}
