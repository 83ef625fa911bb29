// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"cmp"
	"slices"
)

// Part is the part of a placement at one leaf.
type Part struct{ Leaf, Workers int }

// Spread states how far apart the workers of a placement are.
type Spread struct {
	// Level is the outermost level at which the workers are in several domains. It is the
	// number of levels if all are in one domain of the innermost level.
	Level int
	// Domains is how many domains of that level they are in: 1 if they cross none, and 0
	// without workers.
	Domains int
}

// Score rates a placement. Only scores of the same number of workers on the same tree can
// be compared.
type Score struct {
	Spread
	// Cost is the sum of the distances of all pairs of workers.
	Cost int64
}

// Compare returns a negative number if s is better than o, 0 if they are equally good, and
// a positive number otherwise.
func (s Score) Compare(o Score) int {
	return cmp.Or(cmp.Compare(o.Level, s.Level), cmp.Compare(s.Domains, o.Domains), cmp.Compare(s.Cost, o.Cost))
}

// Distance returns the distance between two workers whose outermost crossed level is level:
// they are in different domains of it, but in the same domain of each level outside it. If
// level is the number of levels, the workers cross no level, but are at different leaves.
// The distance at each level is four times the distance at the next inner level, so any
// level counts more than any link.
func (t *Tree) Distance(level int) int64 {
	return int64(Unknown) << (2 * (len(t.levels) - level))
}

// Score returns the score of a placement. Parts may name a leaf twice. Parts at unknown
// leaves (-1) and parts without workers are ignored.
func (t *Tree) Score(parts []Part) Score {
	sorted := t.sorted(parts)
	s := Score{Spread: Spread{Level: len(t.levels)}}
	if len(sorted) == 0 {
		return s
	}
	s.Domains = 1
	apart := pairs(total(sorted)) // pairs that cross no level so far
	for l := range t.levels {
		domains, together := 0, int64(0)
		for i := 0; i < len(sorted); {
			d, n := t.at[l][sorted[i].Leaf], 0
			for ; i < len(sorted) && t.at[l][sorted[i].Leaf] == d; i++ {
				n += sorted[i].Workers
			}
			domains++
			together += pairs(n)
		}
		if domains > 1 && s.Domains == 1 {
			s.Spread = Spread{l, domains}
		}
		s.Cost += (apart - together) * t.Distance(l)
		apart = together
	}
	return s.inside(t, sorted, apart)
}

// inside adds the distances of pairs that cross no level.
func (s Score) inside(t *Tree, sorted []Part, apart int64) Score {
	for i := 0; i < len(sorted); {
		leaf, n := sorted[i].Leaf, 0
		for ; i < len(sorted) && sorted[i].Leaf == leaf; i++ {
			n += sorted[i].Workers
		}
		s.Cost += pairs(n) * int64(t.links[leaf])
		apart -= pairs(n)
	}
	s.Cost += apart * t.Distance(len(t.levels))
	return s
}

// Spread returns how far apart the workers of a placement are.
func (t *Tree) Spread(parts []Part) Spread {
	s := Spread{Level: len(t.levels)}
	low, high := -1, -1
	for _, p := range parts {
		if p.Leaf < 0 || p.Workers <= 0 {
			continue
		}
		s.Domains = 1
		if low < 0 || t.position[p.Leaf] < t.position[low] {
			low = p.Leaf
		}
		if high < 0 || t.position[p.Leaf] > t.position[high] {
			high = p.Leaf
		}
	}
	if s.Domains == 0 {
		return s
	}
	for l := range t.levels {
		if t.at[l][low] != t.at[l][high] {
			return Spread{l, len(t.By(l, parts))}
		}
	}
	return s
}

// Share is the part of a placement in one domain.
type Share struct{ Domain, Workers int }

// By returns the number of workers of a placement in each domain of a level, in the order
// of the tree.
func (t *Tree) By(level int, parts []Part) []Share {
	var out []Share
	for _, p := range t.sorted(parts) {
		d := int(t.at[level][p.Leaf])
		if len(out) == 0 || out[len(out)-1].Domain != d {
			out = append(out, Share{Domain: d})
		}
		out[len(out)-1].Workers += p.Workers
	}
	return out
}

// sorted returns the parts that count, in the order of the tree.
func (t *Tree) sorted(parts []Part) []Part {
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		if p.Leaf >= 0 && p.Workers > 0 {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Part) int { return cmp.Compare(t.position[a.Leaf], t.position[b.Leaf]) })
	return out
}

func total(parts []Part) int {
	n := 0
	for _, p := range parts {
		n += p.Workers
	}
	return n
}

func pairs(n int) int64 { return int64(n) * int64(n-1) / 2 }
