// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import "slices"

// nvlinkScore is what one NVLink counts. It is greater than any path, so that
// one link beats the nearest PCIe neighbour.
const nvlinkScore = 100

// Score ranks what joins a pair: 100 for each NVLink, else 50 for PIX down to
// 10 for SYS and 0 where nothing is known. It orders pairs; it is no bandwidth.
func (l Link) Score() int {
	if l.NVLinks > 0 {
		return nvlinkScore * l.NVLinks
	}
	return 10 * int(l.Path)
}

// Score is the sum of the scores of all pairs of the set.
func (m *Matrix) Score(set []int) int {
	sum := 0
	for a, i := range set {
		for _, j := range set[a+1:] {
			sum += m.Link(i, j).Score()
		}
	}
	return sum
}

// maxSubsets is how many subsets Best looks at one by one. All real machines
// are below: 8 of 16 GPUs are 12,870.
const maxSubsets = 200_000

// Best chooses k of the free GPUs. The chosen have the greatest score; among
// equals those that leave the greatest score to the GPUs that stay free; among
// these the lowest indices. It returns ascending indices, or nil when k is
// less than 1 or more than there are free.
//
// Where there are more than 200,000 ways to choose (only MIG machines have so
// many instances), Best grows a set from each GPU by the best next one and
// returns the best of those, which need not be the very best.
func (m *Matrix) Best(k int, free []int) []int {
	free = slices.Clone(free)
	slices.Sort(free)
	free = slices.Compact(free)
	if k < 1 || k > len(free) {
		return nil
	}
	if subsets(len(free), k) > maxSubsets {
		return m.grow(k, free)
	}
	var best choice
	chosen := make([]int, 0, k)
	var walk func(from int)
	walk = func(from int) {
		if len(chosen) == k {
			c := m.choice(chosen, free)
			if best.set == nil || c.better(best) {
				best = c
			}
			return
		}
		// Enough must be left to fill the set.
		for i := from; i <= len(free)-(k-len(chosen)); i++ {
			chosen = append(chosen, free[i])
			walk(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	walk(0)
	return best.set
}

// choice is a set and what it is worth.
type choice struct {
	set         []int
	score, rest int
}

func (m *Matrix) choice(set, free []int) choice {
	rest := make([]int, 0, len(free)-len(set))
	for _, i := range free {
		if !slices.Contains(set, i) {
			rest = append(rest, i)
		}
	}
	return choice{set: slices.Clone(set), score: m.Score(set), rest: m.Score(rest)}
}

func (c choice) better(o choice) bool {
	if c.score != o.score {
		return c.score > o.score
	}
	if c.rest != o.rest {
		return c.rest > o.rest
	}
	return slices.Compare(c.set, o.set) < 0
}

func (m *Matrix) grow(k int, free []int) []int {
	var best choice
	for _, seed := range free {
		set := []int{seed}
		for len(set) < k {
			next, gain := -1, -1
			for _, i := range free {
				if slices.Contains(set, i) {
					continue
				}
				g := 0
				for _, j := range set {
					g += m.Link(i, j).Score()
				}
				if g > gain {
					next, gain = i, g
				}
			}
			set = append(set, next)
		}
		slices.Sort(set)
		if c := m.choice(set, free); best.set == nil || c.better(best) {
			best = c
		}
	}
	return best.set
}

// subsets returns the number of ways to choose k of n, or some number greater
// than maxSubsets.
func subsets(n, k int) int {
	k = min(k, n-k)
	ways := 1
	for i := range k {
		ways = ways * (n - i) / (i + 1)
		if ways > maxSubsets {
			return ways
		}
	}
	return ways
}
