// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// cluster keeps account of GPUs: which nodes are up, and how many GPUs are free on them.
type cluster struct {
	mode  Placement
	nodes []node
	free  placement.Capacity
	index map[string]int // by ID
	types []string       // sorted
	pools []gpuPool      // by place in types
}

type node struct {
	trace.Node
	typ int // place in cluster.types
	up  bool
}

type gpuPool struct {
	capacity, free int
	most           int // GPUs of the largest node
	places         []placement.Place
}

func newCluster(nodes []trace.Node, mode Placement) *cluster {
	c := &cluster{mode: mode, index: make(map[string]int, len(nodes))}
	for _, n := range nodes {
		if i, found := slices.BinarySearch(c.types, n.Type); !found {
			c.types = slices.Insert(c.types, i, n.Type)
		}
	}
	c.pools = make([]gpuPool, len(c.types))
	if mode == CountOnly {
		nodes = merge(nodes, c.types)
	}
	for _, n := range nodes {
		typ, _ := slices.BinarySearch(c.types, n.Type)
		i := c.free.AddNode(0, 0, 0)
		c.nodes = append(c.nodes, node{Node: n, typ: typ})
		c.index[n.ID] = i
		p := &c.pools[typ]
		p.most = max(p.most, n.GPUs)
		p.places = append(p.places, placement.Place{Node: i})
		c.raise(i)
	}
	return c
}

// merge returns one node for each type, with all GPUs of that type.
func merge(nodes []trace.Node, types []string) []trace.Node {
	out := make([]trace.Node, len(types))
	for i, t := range types {
		out[i] = trace.Node{ID: "all-" + t, Type: t}
	}
	for _, n := range nodes {
		i, _ := slices.BinarySearch(types, n.Type)
		out[i].GPUs += n.GPUs
	}
	return out
}

// gpus returns the ask of workers that hold per GPUs each.
func gpus(per int) placement.Ask { return placement.Ask{Need: placement.Need{Slots: per}} }

// raise puts a node into service with all its GPUs free.
func (c *cluster) raise(i int) {
	n := &c.nodes[i]
	n.up = true
	c.pools[n.typ].capacity += n.GPUs
	c.take(i, -n.GPUs)
}

// lower takes a node out of service. Its workers must be gone.
func (c *cluster) lower(i int) {
	n := &c.nodes[i]
	c.take(i, n.GPUs)
	c.pools[n.typ].capacity -= n.GPUs
	n.up = false
}

// freeOn returns how many GPUs of a node are free.
func (c *cluster) freeOn(i int) int { return c.free.Free(placement.Place{Node: i}) }

// take holds more GPUs of a node, or gives GPUs back if more is negative.
func (c *cluster) take(i, more int) {
	n := &c.nodes[i]
	if free := c.freeOn(i) - more; free < 0 || free > n.GPUs {
		panic("sim: a GPU would be held twice, or given back twice")
	}
	c.free.Take(placement.Place{Node: i}, gpus(1), more)
	c.pools[n.typ].free -= more
}

// grow adds more workers of per GPUs each to a job at shares, as far as they find
// room. It returns the new shares, and how many workers were added.
func (c *cluster) grow(shares []placement.Share, typ, per, more int) ([]placement.Share, int) {
	p := &c.pools[typ]
	if p.free < per {
		return shares, 0
	}
	put := c.free.Pack
	if c.mode == Spread {
		put = c.free.Spread
	}
	shares, added := put(shares, p.places, gpus(per), more)
	p.free -= added * per
	return shares, added
}

// shrink removes a number of workers, those on the newest nodes first.
func (c *cluster) shrink(shares []placement.Share, per, fewer int) []placement.Share {
	for fewer > 0 {
		last := &shares[len(shares)-1]
		workers := min(fewer, last.Workers)
		c.take(last.Node, -workers*per)
		last.Workers -= workers
		fewer -= workers
		if last.Workers == 0 {
			shares = shares[:len(shares)-1]
		}
	}
	return shares
}

// fewest returns the smallest number of nodes on which a number of workers of per
// GPUs fit.
func (c *cluster) fewest(typ, per, workers int) int {
	room := c.pools[typ].most / per
	if room == 0 {
		return 0
	}
	return (workers + room - 1) / room
}

func (c *cluster) capacity() (total, free int) {
	for i := range c.pools {
		total += c.pools[i].capacity
		free += c.pools[i].free
	}
	return total, free
}

// snapshot returns the nodes in service, in the form that policies see, reusing
// dst.
func (c *cluster) snapshot(dst []policy.Node) []policy.Node {
	dst = dst[:0]
	for i := range c.nodes {
		if n := &c.nodes[i]; n.up {
			dst = append(dst, policy.Node{ID: n.ID, Type: n.Type, GPUs: n.GPUs, Free: c.freeOn(i)})
		}
	}
	return dst
}
