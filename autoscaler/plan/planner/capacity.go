// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// capacity is the free capacity of a cluster while a plan is being made. It only
// shrinks: room that a plan frees is not given out in the same plan.
type capacity struct {
	cluster *Cluster
	now     time.Time
	nodes   placement.Capacity
	// pool holds the free slots by node pool: less than those of its nodes if some are
	// reserved, or promised to workers without a place.
	pool  map[string]int
	apart map[groupKey]map[int]bool // nodes taken, of groups that spread

	// unplaced counts the workers that Nomad has been asked for and for which
	// there is no room.
	unplaced map[groupKey]int
	arriving map[int]bool // jobs for whose moves there is room
	inUse    map[int]bool // nodes that have workers or get some; nil if no pool packs

	// open has, by class, the places that may still have a slot. Full ones are swept
	// from time to time, so that a full cluster costs nothing.
	open map[*Class]*openPlaces

	buffer []placement.Site
}

type openPlaces struct {
	places []placement.Place
	taken  int // times since the last sweep
}

// sweepEvery is the number of times that a class's room is taken between two
// sweeps.
const sweepEvery = 32

type groupKey struct{ job, group int }

// newCapacity returns what all live allocations leave free, including those being stopped,
// and the workers that Nomad has been asked for but has not placed yet.
func newCapacity(cl *Cluster, now time.Time) *capacity {
	c := &capacity{
		cluster: cl, now: now, pool: map[string]int{}, apart: map[groupKey]map[int]bool{},
		unplaced: map[groupKey]int{}, arriving: map[int]bool{}, inUse: inUse(cl), open: map[*Class]*openPlaces{},
	}
	for i := range cl.Nodes {
		n := &cl.Nodes[i]
		slots := make([]int, len(n.Bins))
		if n.State != Ready {
			c.nodes.AddNode(0, 0, slots...)
			continue
		}
		for b := range n.Bins {
			slots[b] = n.Bins[b].Slots
			c.pool[n.Pool] += n.Bins[b].Slots
		}
		c.nodes.AddNode(n.CPU, n.Memory, slots...)
	}
	for p, n := range cl.Reserved {
		c.pool[p] -= n
	}
	for j := range cl.Jobs {
		for g := range cl.Jobs[j].Groups {
			for _, w := range cl.Jobs[j].Groups[g].Live {
				c.occupy(j, g, w.Place)
			}
			for _, w := range cl.Jobs[j].Groups[g].Spares {
				c.occupy(j, g, w.Place)
			}
		}
	}
	for j := range cl.Jobs {
		for g := range cl.Jobs[j].Groups {
			if n := cl.pending(j, g); n > 0 {
				c.unplaced[groupKey{j, g}] = n - c.take(j, g, n)
			}
			c.take(j, g, cl.pendingSpares(j, g))
		}
	}
	for j := range cl.Jobs {
		c.await(j)
	}
	return c
}

// pending returns how many workers of a group Nomad may still place, or place again.
func (c *Cluster) pending(j, g int) int {
	group := &c.Jobs[j].Groups[g]
	return c.missing(j, group.Count, group.Live)
}

// pendingSpares returns the same for the spares of a group.
func (c *Cluster) pendingSpares(j, g int) int {
	group := &c.Jobs[j].Groups[g]
	return c.missing(j, group.Spare, group.Spares)
}

// missing returns how many of a number of a job's workers are not on a node that keeps them.
// A worker that is ending does not count as kept, even if the count has been raised again. A
// frozen or stopped job has none: its missing workers will not come back.
func (c *Cluster) missing(j, number int, live []Worker) int {
	if c.Jobs[j].Frozen != "" || c.Jobs[j].Stopped {
		return 0
	}
	for _, w := range live {
		if !w.Ending && (w.Node < 0 || c.Nodes[w.Node].State != Draining) {
			number--
		}
	}
	return max(0, number)
}

// occupy takes the room of one live worker. Workers on nodes that take no new ones occupy
// nothing, because the room of such nodes does not count.
func (c *capacity) occupy(j, g int, at placement.Place) {
	ask := c.ask(j, g)
	switch {
	case at.Node < 0:
		// The worker is on an unknown node, so the pool has less room.
		c.pool[c.cluster.Jobs[j].Pool] -= ask.Slots
	case c.cluster.Nodes[at.Node].State == Ready:
		c.pool[c.cluster.Nodes[at.Node].Pool] -= ask.Slots
		c.nodes.Take(at, ask, 1)
	case ask.Apart != nil:
		ask.Apart[at.Node] = true
	}
}

// ask returns the requirements of a group's workers.
func (c *capacity) ask(j, g int) placement.Ask {
	group := &c.cluster.Jobs[j].Groups[g]
	ask := placement.Ask{Need: group.Need}
	if group.Spread {
		k := groupKey{j, g}
		if c.apart[k] == nil {
			c.apart[k] = map[int]bool{}
		}
		ask.Apart = c.apart[k]
	}
	return ask
}

// openPlaces returns the group's places, without those known to be full.
func (c *capacity) openPlaces(j, g int) *openPlaces {
	class := c.cluster.Jobs[j].Groups[g].Class
	if class == nil {
		return &openPlaces{}
	}
	if c.open[class] == nil {
		c.open[class] = &openPlaces{places: slices.Clone(class.Places)}
		c.sweep(c.open[class])
	}
	return c.open[class]
}

// sweep removes full places. It must not be called during a trial, which may free them
// again.
func (c *capacity) sweep(open *openPlaces) {
	open.taken = 0
	open.places = slices.DeleteFunc(open.places, func(at placement.Place) bool { return c.nodes.Free(at) <= 0 })
}

// free returns how many more workers of the group can be placed, at most limit.
func (c *capacity) free(j, g, limit int) int {
	if slots := c.cluster.Jobs[j].Groups[g].Need.Slots; slots > 0 {
		limit = min(limit, c.pool[c.cluster.Jobs[j].Pool]/slots)
	}
	return c.nodes.Room(c.openPlaces(j, g).places, c.ask(j, g), limit)
}

// take promises a group n more workers, and returns how many of them find a place. The
// pool has less room for the others, too: Nomad may place them wherever room appears.
func (c *capacity) take(j, g, n int) int {
	if n <= 0 {
		return 0
	}
	ask, open := c.ask(j, g), c.openPlaces(j, g)
	shares, placed := c.nodes.Pack(nil, open.places, ask, n)
	c.use(shares)
	c.pool[c.cluster.Jobs[j].Pool] -= n * ask.Slots
	if open.taken++; open.taken > sweepEvery {
		c.sweep(open)
	}
	return placed
}

// try takes room on trial for as many of n workers as find a place. It returns how many do,
// and a function that gives the room back.
func (c *capacity) try(j, g, n int) (placed int, rollback func()) {
	if n <= 0 {
		return 0, func() {} // don't open the group's places: a trial may have filled them only for now
	}
	ask, pool := c.ask(j, g), c.cluster.Jobs[j].Pool
	shares, placed := c.nodes.Pack(nil, c.openPlaces(j, g).places, ask, n)
	c.pool[pool] -= placed * ask.Slots
	return placed, func() {
		c.nodes.GiveBack(shares, ask)
		c.pool[pool] += placed * ask.Slots
	}
}
