// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"cmp"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// In a pool that packs (Cluster.Packed), workers leave groups whose nodes become empty, and
// come to nodes that are in use. Nomad chooses the nodes of a group, so for a group that
// spans several nodes this is only a preference.

// emptying orders a job's groups by which to leave first, if left workers leave the job.
// First come groups that the job can leave completely, so that their nodes have no elastic
// worker any longer. Of these, groups with fewer workers per node come first. Then come all
// other groups, beginning with those that have the fewest workers on their nodes. Equal
// groups stay in the given order.
func (b *planBuilder) emptying(j int, order, counts []int, left int) []int {
	loads, groups := b.loads(), b.Jobs[j].Groups
	nodes, others, total := make([]int, len(groups)), make([]int, len(groups)), make([]int, len(groups))
	for g := range groups {
		own := map[int]int{}
		for _, w := range groups[g].Live {
			if w.Node >= 0 && !w.Ending {
				own[w.Node]++
			}
		}
		nodes[g] = len(own)
		for n, k := range own {
			total[g] += loads[n]
			others[g] += loads[n] - k
		}
	}
	var alone, rest []int
	for _, g := range order {
		if others[g] == 0 && nodes[g] > 0 && groups[g].Min == 0 {
			alone = append(alone, g)
		} else {
			rest = append(rest, g)
		}
	}
	slices.SortStableFunc(alone, func(x, y int) int {
		return cmp.Compare(counts[x]*nodes[y], counts[y]*nodes[x])
	})
	out := make([]int, 0, len(order))
	for _, g := range alone {
		if counts[g] <= left {
			out, left = append(out, g), left-counts[g]
		} else {
			rest = append(rest, g)
		}
	}
	slices.SortStableFunc(rest, func(x, y int) int { return cmp.Compare(total[x], total[y]) })
	return append(out, rest...)
}

// loads returns how many elastic workers stay on each node, without those of groups that
// this plan empties.
func (b *planBuilder) loads() []int {
	if b.load == nil {
		b.load = make([]int, len(b.Nodes))
		for j := range b.Jobs {
			for g := range b.Jobs[j].Groups {
				b.addLoad(j, g, 1)
			}
		}
	}
	return b.load
}

func (b *planBuilder) addLoad(j, g, sign int) {
	for _, w := range b.Jobs[j].Groups[g].Live {
		if w.Node >= 0 && !w.Ending {
			b.load[w.Node] += sign
		}
	}
}

// emptied records which groups a job leaves completely.
func (b *planBuilder) emptied(j int, counts []int) {
	for g, n := range counts {
		if n == 0 && b.load != nil {
			b.addLoad(j, g, -1)
		}
	}
}

// inUse returns the nodes with elastic workers that stay, or nil if no pool packs.
func inUse(c *Cluster) map[int]bool {
	if len(c.Packed) == 0 {
		return nil
	}
	out := map[int]bool{}
	for j := range c.Jobs {
		for g := range c.Jobs[j].Groups {
			for _, w := range c.Jobs[j].Groups[g].Live {
				if w.Node >= 0 && !w.Ending {
					out[w.Node] = true
				}
			}
		}
	}
	return out
}

// use records the nodes that get workers.
func (c *capacity) use(shares []placement.Share) {
	if c.inUse == nil {
		return
	}
	for _, s := range shares {
		c.inUse[s.Node] = true
	}
}

// packs reports whether the pool of a job prefers to empty nodes.
func (c *capacity) packs(j int) bool { return c.cluster.Packed[c.cluster.Jobs[j].Pool] }

// roomInUse returns how many of up to n more workers of a group find room on nodes that are
// in use.
func (c *capacity) roomInUse(j, g, n int) int {
	var used []placement.Place
	for _, at := range c.openPlaces(j, g).places {
		if c.inUse[at.Node] {
			used = append(used, at)
		}
	}
	return c.nodes.Room(used, c.ask(j, g), n)
}

// fillUsed takes room for n more workers on nodes that are in use, on trial, and adds them
// to counts. If these nodes do not hold all n, it takes none: the job is better kept
// together.
func (c *capacity) fillUsed(j int, order, counts []int, n int, more func(g, n int) int) (placed int, rollback func()) {
	before := slices.Clone(counts)
	var tries []func()
	rollback = func() {
		for _, undo := range tries {
			undo()
		}
	}
	for _, g := range order {
		k, undo := c.try(j, g, min(more(g, n-placed), c.roomInUse(j, g, n-placed)))
		tries = append(tries, undo)
		counts[g] += k
		placed += k
	}
	if placed < n {
		rollback()
		copy(counts, before)
		return 0, func() {}
	}
	return placed, rollback
}

// growAt chooses the sites of n more workers by the job's rule. If the pool packs, it
// prefers the sites with most room on nodes in use, among sites that are equal by the rule.
func (c *capacity) growAt(j int, sites []placement.Site, n int, faster placement.Ratio) []int {
	rule := c.cluster.Jobs[j].Locality.Rule
	if !c.packs(j) {
		more, _ := placement.GrowFaster(sites, n, rule, faster)
		return more
	}
	order, used := make([]int, len(sites)), make([]int, len(sites))
	for g := range sites {
		order[g] = g
		if sites[g].Room > 0 {
			used[g] = c.roomInUse(j, g, sites[g].Room)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(used[y], used[x]) })
	more, _ := placement.GrowFaster(permuted(sites, order), n, rule, inOrder(faster, order))
	return restored(more, order)
}

// inOrder returns a ratio for counts of permuted sites.
func inOrder(faster placement.Ratio, order []int) placement.Ratio {
	if faster == nil {
		return nil
	}
	return func(counts, elsewhere []int) float64 {
		return faster(restored(counts, order), restored(elsewhere, order))
	}
}

// permuted returns sites in another order. It numbers domains in that order, because of
// equal domains the one with the lowest number is chosen.
func permuted(sites []placement.Site, order []int) []placement.Site {
	out := make([]placement.Site, len(sites))
	first := map[string]int{}
	for i, g := range order {
		path := sites[g].Path
		out[i] = sites[g]
		out[i].Path = make([]int, len(path))
		for l := range path {
			key := pathKey(path[:l+1])
			if _, known := first[key]; !known {
				first[key] = i
			}
			out[i].Path[l] = first[key]
		}
	}
	return out
}

// restored returns the counts of permuted sites in the original order of the sites.
func restored(counts, order []int) []int {
	out := make([]int, len(counts))
	for i, g := range order {
		out[g] = counts[i]
	}
	return out
}
