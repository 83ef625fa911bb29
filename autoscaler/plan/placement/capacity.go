// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import "math"

// Place is a bin of a node: one of its device groups, or its CPU slots. A worker takes all
// its slots from one bin, because Nomad fills a device ask from one group. A bin of -1 is
// an unknown bin of the node, or no bin: a worker that holds no slot needs only the node.
type Place struct{ Node, Bin int }

// Need states how much of each resource one worker holds.
type Need struct {
	Slots  int // 0 only for workers of places without a bin
	CPU    int // MHz, 0 means that it does not count
	Memory int // MiB, 0 means that it does not count
}

// Ask holds the requirements of a group's workers.
type Ask struct {
	Need
	// Apart holds the nodes with workers of the group, if no two may share a node. Take
	// keeps it up to date. It is nil if workers may share nodes.
	Apart map[int]bool
}

// Capacity holds the free resources of nodes. An amount may be negative, if workers hold
// more than the node has; it then counts as 0.
type Capacity struct {
	cpu    []int   // by node
	memory []int   // by node
	slots  [][]int // by node and bin
}

// AddNode adds an empty node with the given slots in each bin, and returns its number; the
// first is 0.
func (c *Capacity) AddNode(cpu, memory int, slots ...int) int {
	c.cpu, c.memory, c.slots = append(c.cpu, cpu), append(c.memory, memory), append(c.slots, slots)
	return len(c.slots) - 1
}

// Free returns how many slots of a place are free. A place without a bin is never full.
func (c *Capacity) Free(at Place) int {
	if at.Bin < 0 {
		return math.MaxInt
	}
	return c.slots[at.Node][at.Bin]
}

// Take reserves the resources of a number of workers at a place, or releases them if the
// number is negative. If the bin is unknown, only CPU and memory change.
func (c *Capacity) Take(at Place, ask Ask, workers int) {
	c.cpu[at.Node] -= workers * ask.CPU
	c.memory[at.Node] -= workers * ask.Memory
	if at.Bin >= 0 {
		c.slots[at.Node][at.Bin] -= workers * ask.Slots
	}
	switch {
	case ask.Apart == nil:
	case workers < 0:
		delete(ask.Apart, at.Node)
	default:
		ask.Apart[at.Node] = true
	}
}

// fits returns how many workers fit at a place.
func (c *Capacity) fits(at Place, ask Ask) int {
	n := math.MaxInt
	if ask.Slots > 0 {
		n = c.slots[at.Node][at.Bin] / ask.Slots
	}
	if n <= 0 {
		return 0
	}
	n = min(n, c.holds(at.Node, ask, 0))
	if ask.Apart == nil {
		return n
	}
	if ask.Apart[at.Node] {
		return 0
	}
	return min(n, 1)
}

// holds returns how many workers the CPU and memory of a node hold, in addition to others
// that ask for the same.
func (c *Capacity) holds(node int, ask Ask, others int) int {
	n := math.MaxInt
	if ask.CPU > 0 {
		n = min(n, c.cpu[node]/ask.CPU-others)
	}
	if ask.Memory > 0 {
		n = min(n, c.memory[node]/ask.Memory-others)
	}
	return max(0, n)
}

// Room returns how many workers fit at the places together, at most limit. Places of one
// node must follow each other.
func (c *Capacity) Room(places []Place, ask Ask, limit int) int {
	n := 0
	node, there := -1, 0 // counted on a node of several bins, which share CPU and memory
	for _, at := range places {
		if n >= limit {
			break
		}
		if at.Node != node {
			node, there = at.Node, 0
		}
		k := min(c.fits(at, ask), limit-n)
		if there > 0 {
			k = min(k, c.holds(node, ask, there))
			if ask.Apart != nil {
				k = 0
			}
		}
		there += k
		n += k
	}
	return max(0, min(n, limit))
}
