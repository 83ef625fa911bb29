// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import "math"

// Place is a bin of a node: one of its device groups, or its CPU slots. One
// worker takes all its slots from one bin, as Nomad fills a device ask from one
// group. A bin of -1 is unknown on its node.
type Place struct{ Node, Bin int }

// Need is what one worker holds.
type Need struct {
	Slots  int // at least 1
	CPU    int // MHz, 0 is not counted
	Memory int // MiB, 0 is not counted
}

// Ask is what workers of one group ask for.
type Ask struct {
	Need
	// Apart are the nodes that workers of the group are on, where no two may
	// share one. It is nil where they may, and kept up to date by Take.
	Apart map[int]bool
}

// Capacity is what is free on nodes. Amounts may be negative, where more is held
// than there is; that counts as nothing.
type Capacity struct {
	cpu    []int   // by node
	memory []int   // by node
	slots  [][]int // by node and bin
}

// AddNode adds a node of which all is free, with the slots of each bin, and
// returns its number; the first is 0.
func (c *Capacity) AddNode(cpu, memory int, slots ...int) int {
	c.cpu, c.memory, c.slots = append(c.cpu, cpu), append(c.memory, memory), append(c.slots, slots)
	return len(c.slots) - 1
}

// Free is how many slots of a place are free.
func (c *Capacity) Free(at Place) int { return c.slots[at.Node][at.Bin] }

// Take takes the room of so many workers, or gives it back where their number
// is negative. Of a bin that is unknown only CPU and memory are taken.
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

// fits is how many workers fit at a place.
func (c *Capacity) fits(at Place, ask Ask) int {
	n := c.slots[at.Node][at.Bin] / ask.Slots
	if n <= 0 {
		return 0
	}
	n = min(n, c.beside(at.Node, ask, 0))
	if ask.Apart == nil {
		return n
	}
	if ask.Apart[at.Node] {
		return 0
	}
	return min(n, 1)
}

// beside is how many workers the CPU and memory of a node hold on top of others
// that ask for the same.
func (c *Capacity) beside(node int, ask Ask, others int) int {
	n := math.MaxInt
	if ask.CPU > 0 {
		n = min(n, c.cpu[node]/ask.CPU-others)
	}
	if ask.Memory > 0 {
		n = min(n, c.memory[node]/ask.Memory-others)
	}
	return max(0, n)
}

// Room is how many workers fit at the places together, at most limit. Places of one
// node follow each other.
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
		k := c.fits(at, ask)
		if there > 0 {
			k = min(k, c.beside(node, ask, there))
			if ask.Apart != nil {
				k = 0
			}
		}
		there += k
		n += k
	}
	return max(0, min(n, limit))
}
