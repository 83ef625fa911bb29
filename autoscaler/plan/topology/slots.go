// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import "slices"

// Slots counts the free and used slots in each domain of a tree. Add updates it.
type Slots struct {
	tree  *Tree
	all   Amount
	sums  [][]Amount // by level and domain
	leafs []Amount
}

// Amount is a number of slots.
type Amount struct {
	Free int `json:"free"`
	Used int `json:"used"`
}

// Slots returns a new count for the tree's domains. All its numbers are 0.
func (t *Tree) Slots() *Slots {
	s := &Slots{tree: t, sums: make([][]Amount, len(t.levels)), leafs: make([]Amount, len(t.links))}
	for l := range s.sums {
		s.sums[l] = make([]Amount, len(t.domains[l]))
	}
	return s
}

// Clone returns a copy.
func (s *Slots) Clone() *Slots {
	c := &Slots{tree: s.tree, all: s.all, leafs: slices.Clone(s.leafs), sums: make([][]Amount, len(s.sums))}
	for l := range s.sums {
		c.sums[l] = slices.Clone(s.sums[l])
	}
	return c
}

// Add adds slots at a leaf, or removes them if the numbers are negative. An unknown leaf
// (-1) counts only for the pool.
func (s *Slots) Add(leaf, free, used int) {
	s.all.add(free, used)
	if leaf < 0 {
		return
	}
	s.leafs[leaf].add(free, used)
	for l := range s.sums {
		s.sums[l][s.tree.at[l][leaf]].add(free, used)
	}
}

func (a *Amount) add(free, used int) {
	a.Free += free
	a.Used += used
}

// Pool returns the slots of the whole pool.
func (s *Slots) Pool() Amount { return s.all }

// Of returns the slots of a domain.
func (s *Slots) Of(level, domain int) Amount { return s.sums[level][domain] }

// At returns the slots of a leaf.
func (s *Slots) At(leaf int) Amount { return s.leafs[leaf] }
