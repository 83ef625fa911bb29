// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// cluster keeps account of GPUs. Nodes of one type with the same number of
// free GPUs stand together in a bucket, so that the best node for a worker is
// found without looking at all of them.
type cluster struct {
	mode  Placement
	nodes []node
	index map[string]int // by ID
	types []string       // sorted
	pools []gpuPool      // by place in types
}

type node struct {
	trace.Node
	typ  int // place in cluster.types
	free int
	up   bool
	pos  int // in its bucket
}

type gpuPool struct {
	capacity, free int
	most           int     // GPUs of the largest node
	buckets        [][]int // nodes that are up, by free GPUs
}

// share is a part of a job's workers that stand on one node.
type share struct {
	node    int
	workers int
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
		c.pools[typ].most = max(c.pools[typ].most, n.GPUs)
	}
	for i := range c.pools {
		c.pools[i].buckets = make([][]int, c.pools[i].most+1)
	}
	for i, n := range nodes {
		typ, _ := slices.BinarySearch(c.types, n.Type)
		c.nodes = append(c.nodes, node{Node: n, typ: typ})
		c.index[n.ID] = i
		c.raise(i)
	}
	return c
}

// merge makes one node of all nodes of a type.
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

// raise takes a node into service with all its GPUs free.
func (c *cluster) raise(i int) {
	n := &c.nodes[i]
	n.up, n.free = true, n.GPUs
	p := &c.pools[n.typ]
	p.capacity += n.GPUs
	p.free += n.GPUs
	n.pos = len(p.buckets[n.free])
	p.buckets[n.free] = append(p.buckets[n.free], i)
}

// lower takes a node out of service. Its workers must be gone.
func (c *cluster) lower(i int) {
	n := &c.nodes[i]
	c.unbucket(i)
	n.up = false
	p := &c.pools[n.typ]
	p.capacity -= n.GPUs
	p.free -= n.free
	n.free = 0
}

func (c *cluster) unbucket(i int) {
	n := &c.nodes[i]
	b := c.pools[n.typ].buckets[n.free]
	last := b[len(b)-1]
	b[n.pos] = last
	c.nodes[last].pos = n.pos
	c.pools[n.typ].buckets[n.free] = b[:len(b)-1]
}

// take holds gpus more of a node, or gives them back when gpus is negative.
func (c *cluster) take(i, gpus int) {
	n := &c.nodes[i]
	if n.free-gpus < 0 || n.free-gpus > n.GPUs {
		panic("sim: a GPU would be held twice, or given back twice")
	}
	c.unbucket(i)
	n.free -= gpus
	p := &c.pools[n.typ]
	p.free -= gpus
	n.pos = len(p.buckets[n.free])
	p.buckets[n.free] = append(p.buckets[n.free], i)
}

// grow adds up to more workers of per GPUs to a job that stands on place and
// returns where it stands then and how many were added. It first fills nodes
// that the job is on, then takes the node that the rest fits best on, or else
// the emptiest.
func (c *cluster) grow(place []share, typ, per, more int) ([]share, int) {
	p := &c.pools[typ]
	added := 0
	put := func(at *share, workers int) {
		c.take(at.node, workers*per)
		at.workers += workers
		added += workers
	}
	if c.mode != Spread {
		for k := range place {
			if workers := min(more-added, c.nodes[place[k].node].free/per); workers > 0 {
				put(&place[k], workers)
			}
		}
	}
	for added < more {
		i, workers := -1, more-added
		if c.mode != Spread {
			for free := workers * per; free <= p.most && i < 0; free++ {
				if b := p.buckets[free]; len(b) > 0 {
					i = b[len(b)-1]
				}
			}
		}
		for free := p.most; free >= per && i < 0; free-- {
			if b := p.buckets[free]; len(b) > 0 {
				i, workers = b[len(b)-1], min(workers, free/per)
			}
		}
		if i < 0 {
			break // what is free lies in pieces smaller than a worker
		}
		if c.mode == Spread {
			workers = 1
		}
		at := slices.IndexFunc(place, func(s share) bool { return s.node == i })
		if at < 0 {
			place = append(place, share{node: i})
			at = len(place) - 1
		}
		put(&place[at], workers)
	}
	return place, added
}

// shrink takes fewer workers away, the newest nodes first.
func (c *cluster) shrink(place []share, per, fewer int) []share {
	for fewer > 0 {
		last := &place[len(place)-1]
		workers := min(fewer, last.workers)
		c.take(last.node, -workers*per)
		last.workers -= workers
		fewer -= workers
		if last.workers == 0 {
			place = place[:len(place)-1]
		}
	}
	return place
}

// fewest is the least number of nodes that workers of per GPUs can stand on.
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

// snapshot describes the nodes that are up to a policy, into dst.
func (c *cluster) snapshot(dst []policy.Node) []policy.Node {
	dst = dst[:0]
	for i := range c.nodes {
		if n := &c.nodes[i]; n.up {
			dst = append(dst, policy.Node{ID: n.ID, Type: n.Type, GPUs: n.GPUs, Free: n.free})
		}
	}
	return dst
}
