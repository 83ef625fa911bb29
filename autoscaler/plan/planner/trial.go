// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
)

// possible reports whether, after all moving workers have left, they find room where they
// are to go, and a gang (-1 for none) of a size then finds room in a domain. Package migrate
// counts only slots; this counts all resources that workers need.
func (b *planBuilder) possible(f *moverView, moves map[int]migrate.Move, gang, size int, in *target) bool {
	c := b.capacity
	open := c.open
	c.open = map[*Class]*openPlaces{} // places that are full now have room then
	var rollbacks []func()
	defer func() {
		for _, r := range slices.Backward(rollbacks) {
			r()
		}
		c.open = open
	}()
	who := slices.Sorted(maps.Keys(moves))
	for _, k := range who {
		for g, n := range moves[k].Counts {
			rollbacks = append(rollbacks, c.vacate(f.jobs[k], g, b.Jobs[f.jobs[k]].Groups[g].Count-n))
		}
	}
	for _, k := range who {
		for g, n := range moves[k].Counts {
			more := n - b.Jobs[f.jobs[k]].Groups[g].Count
			placed, rollback := c.try(f.jobs[k], g, more)
			rollbacks = append(rollbacks, rollback)
			if placed < more {
				return false
			}
		}
	}
	if gang < 0 {
		return true
	}
	_, fit := c.splitOver(gang, size, func(g int) bool { return !in.inside(b.Jobs[gang].Groups[g].Path) })
	return fit >= size
}

// vacate gives back the room of n workers of a group on trial. Nomad chooses which of them
// leave; vacate assumes the last ones.
func (c *capacity) vacate(j, g, n int) (rollback func()) {
	if n <= 0 {
		return func() {}
	}
	ask, live, pool := c.ask(j, g), c.cluster.Jobs[j].Groups[g].Live, c.cluster.Jobs[j].Pool
	leaving := live[max(0, len(live)-n):]
	take := func(workers int) {
		for _, w := range leaving {
			if w.Node >= 0 && c.cluster.Nodes[w.Node].State == Ready {
				c.nodes.Take(w.Place, ask, workers)
				c.pool[pool] += -workers * ask.Slots
			}
		}
	}
	take(-1)
	return func() { take(1) }
}
