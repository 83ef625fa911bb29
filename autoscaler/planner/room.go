// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"slices"
	"time"
)

// room is the free part of a cluster while a plan is being made. It only
// shrinks: nothing that a plan frees is given out in the same plan.
type room struct {
	cluster *Cluster
	cpu     []int   // by node
	memory  []int   // by node
	slots   [][]int // by node and bin
	pool    map[string]int
	used    map[groupKey]map[int]bool // nodes taken, of groups that spread
	now     time.Time

	// unplaced are workers that Nomad has been asked for and for which there is
	// no room.
	unplaced map[groupKey]int

	// open holds per class the places that may still have a slot, and is swept
	// of full ones now and then, so that a full cluster costs nothing.
	open map[*Class]*openPlaces

	// trial collects what was taken on trial, to give it back; nil otherwise.
	trial *[]taken
}

type taken struct {
	job, group int
	at         Place
}

type openPlaces struct {
	places []Place
	asked  int // since the last sweep
}

// sweepEvery is how often a list of places is asked for between two sweeps.
const sweepEvery = 32

type groupKey struct{ job, group int }

// newRoom takes off all live allocations, those being stopped included, and
// then room for the workers that Nomad has been asked for and not placed yet.
func newRoom(c *Cluster, now time.Time) *room {
	r := &room{
		cluster: c,
		cpu:     make([]int, len(c.Nodes)),
		memory:  make([]int, len(c.Nodes)),
		slots:   make([][]int, len(c.Nodes)),
		pool:    map[string]int{},
		used:    map[groupKey]map[int]bool{},
		open:    map[*Class]*openPlaces{},
		now:     now, unplaced: map[groupKey]int{},
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		r.slots[i] = make([]int, len(n.Bins))
		if n.State != Ready {
			continue
		}
		r.cpu[i], r.memory[i] = n.CPU, n.Memory
		for b := range n.Bins {
			r.slots[i][b] = n.Bins[b].Slots
			r.pool[n.Pool] += n.Bins[b].Slots
		}
	}
	for p, n := range c.Others {
		r.pool[p] -= n
	}
	for j := range c.Jobs {
		for g := range c.Jobs[j].Groups {
			for _, w := range c.Jobs[j].Groups[g].Live {
				r.occupy(j, g, w.Place)
			}
		}
	}
	for j := range c.Jobs {
		for g := range c.Jobs[j].Groups {
			if n := r.cluster.pending(j, g); n > 0 {
				r.unplaced[groupKey{j, g}] = n - r.take(j, g, n, true)
			}
		}
	}
	return r
}

// pending is how many workers Nomad may still place, or place again: those of
// the count that do not sit on a node that keeps them. One that is ending does
// not stay, even where the count has been raised again meanwhile. Workers of a
// frozen job that are missing have completed and will not come back.
func (c *Cluster) pending(j, g int) int {
	if c.Jobs[j].Frozen != "" {
		return 0
	}
	group := &c.Jobs[j].Groups[g]
	stays := 0
	for _, w := range group.Live {
		if !w.Ending && (w.Node < 0 || c.Nodes[w.Node].State != Leaving) {
			stays++
		}
	}
	return max(0, group.Count-stays)
}

// occupy takes the room of one live worker. Workers on nodes that take no new
// ones occupy nothing there: their room was never counted.
func (r *room) occupy(j, g int, at Place) {
	group := &r.cluster.Jobs[j].Groups[g]
	if r.trial != nil {
		*r.trial = append(*r.trial, taken{j, g, at})
	}
	if group.Spread && at.Node >= 0 {
		r.mark(j, g, at.Node)
	}
	switch {
	case at.Node < 0:
		// Somewhere unknown is somewhere: the pool has less.
		r.pool[r.cluster.Jobs[j].Pool] -= group.Need.Slots
	case r.cluster.Nodes[at.Node].State == Ready:
		r.pool[r.cluster.Nodes[at.Node].Pool] -= group.Need.Slots
		r.cpu[at.Node] -= group.Need.CPU
		r.memory[at.Node] -= group.Need.Memory
		if at.Bin >= 0 {
			r.slots[at.Node][at.Bin] -= group.Need.Slots
		}
	}
}

func (r *room) mark(j, g, node int) {
	k := groupKey{j, g}
	if r.used[k] == nil {
		r.used[k] = map[int]bool{}
	}
	r.used[k][node] = true
}

// giveBack undoes what was taken on trial, which was on ready nodes only.
func (r *room) giveBack() {
	for _, t := range *r.trial {
		group := &r.cluster.Jobs[t.job].Groups[t.group]
		r.pool[r.cluster.Nodes[t.at.Node].Pool] += group.Need.Slots
		r.cpu[t.at.Node] += group.Need.CPU
		r.memory[t.at.Node] += group.Need.Memory
		r.slots[t.at.Node][t.at.Bin] += group.Need.Slots
		delete(r.used[groupKey{t.job, t.group}], t.at.Node)
	}
	r.trial = nil
}

// fits is how many workers of the group fit at a place.
func (r *room) fits(j, g int, at Place) int {
	group := &r.cluster.Jobs[j].Groups[g]
	n := r.slots[at.Node][at.Bin] / group.Need.Slots
	if group.Need.CPU > 0 {
		n = min(n, r.cpu[at.Node]/group.Need.CPU)
	}
	if group.Need.Memory > 0 {
		n = min(n, r.memory[at.Node]/group.Need.Memory)
	}
	if group.Spread {
		if r.used[groupKey{j, g}][at.Node] {
			return 0
		}
		n = min(n, 1)
	}
	return max(0, n)
}

// places are the group's places; those known to be full are left out.
func (r *room) places(j, g int) []Place {
	class := r.cluster.Jobs[j].Groups[g].Class
	if class == nil {
		return nil
	}
	open, seen := r.open[class]
	if !seen {
		open = &openPlaces{places: slices.Clone(class.Places), asked: sweepEvery}
		r.open[class] = open
	}
	if open.asked++; open.asked > sweepEvery {
		open.asked = 0
		open.places = slices.DeleteFunc(open.places, func(at Place) bool { return r.slots[at.Node][at.Bin] <= 0 })
	}
	return open.places
}

// free is how many more workers of the group can be placed, at most limit.
func (r *room) free(j, g, limit int) int {
	limit = min(limit, r.pool[r.cluster.Jobs[j].Pool]/r.cluster.Jobs[j].Groups[g].Need.Slots)
	n, seen := 0, map[int]bool{}
	spread := r.cluster.Jobs[j].Groups[g].Spread
	cpu := map[int]int{} // workers put on a node of several bins so far
	for _, at := range r.places(j, g) {
		if n >= limit {
			break
		}
		if spread && seen[at.Node] {
			continue
		}
		k := r.fits(j, g, at)
		if k == 0 {
			continue
		}
		if len(r.slots[at.Node]) > 1 {
			k = min(k, r.besides(j, g, at.Node, cpu[at.Node]))
			cpu[at.Node] += k
		}
		n += k
		seen[at.Node] = true
	}
	return max(0, min(n, limit))
}

// besides is how many workers a node's CPU and memory hold on top of n.
func (r *room) besides(j, g, node, n int) int {
	need := r.cluster.Jobs[j].Groups[g].Need
	k := 1 << 30
	if need.CPU > 0 {
		k = min(k, r.cpu[node]/need.CPU-n)
	}
	if need.Memory > 0 {
		k = min(k, r.memory[node]/need.Memory-n)
	}
	return max(0, k)
}

// take places n workers and returns how many found a place. With force the
// pool pays for those that did not as well: Nomad has been asked for them and
// may place them wherever room appears.
func (r *room) take(j, g, n int, force bool) int {
	if n <= 0 {
		return 0
	}
	placed := 0
	need := r.cluster.Jobs[j].Groups[g].Need.Slots
	for placed < n {
		at, k := r.best(j, g, n-placed)
		if k == 0 {
			break
		}
		for range min(k, n-placed) {
			r.occupy(j, g, at)
			placed++
		}
	}
	if force {
		r.pool[r.cluster.Jobs[j].Pool] -= (n - placed) * need
	}
	return placed
}

// best is the place that keeps the next n workers together best: one that
// holds them all with the least room left, or else the one with most room.
func (r *room) best(j, g, n int) (Place, int) {
	var at Place
	found := 0
	for _, p := range r.places(j, g) {
		k := r.fits(j, g, p)
		switch {
		case k == 0:
		case found == 0,
			found < n && k > found,
			k >= n && found > k:
			at, found = p, k
		}
		if found == n {
			break
		}
	}
	return at, found
}
