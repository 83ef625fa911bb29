// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import (
	"cmp"
	"slices"
)

// Site is where a share of a job is that can be set by itself: a group of a job
// that is bound to one domain, or a node where there is no one else to choose it.
type Site struct {
	// Path is the domain that the site is in at each level, outermost first. It is
	// shorter than that of other sites where the site spans several domains of the
	// next level.
	Path  []int
	Held  int // workers of the job that are there
	Fixed int // of these, those that must stay
	Room  int // more workers that fit there
	// Free is how many would find room there if the job could have as many; 0 is
	// Room. Of several domains that hold a job, the one with least is chosen.
	Free int
}

// Rule is how close together the workers of a job are to be.
type Rule struct {
	// Levels is how many levels are looked at for a domain that holds all workers,
	// the outermost first; 0 is all of them.
	Levels int
	// Within, where it is above 0, is how many levels are never crossed: 2 keeps
	// the job in one domain of the second.
	Within int
}

// Grow chooses the sites of up to n more workers of a job, and returns how many go
// to each and how many found room. They go into the innermost domain that has
// room for them beside all that the job holds; of several into the one with least
// room, so that the largest free one stays largest (best fit, as in Kueue's
// Topology Aware Scheduling). Where none has room they go to as few domains of
// each level as there can be, those that hold most of the job first. Rule.Within
// is kept to even where fewer find room so.
func Grow(sites []Site, n int, r Rule) (more []int, placed int) {
	c := newChoice(sites)
	in := c.all()
	if n <= 0 {
		return c.counts, 0
	}
	levels := c.depth
	if r.Levels > 0 {
		levels = min(levels, max(r.Levels, r.Within))
	}
	held := c.held(in)
	for l := levels; l >= max(1, r.Within); l-- {
		if d := c.roomiest(l, in, held, n); d != nil && c.room(d) >= n {
			return c.counts, c.fill(d, l, n)
		}
	}
	if r.Within > 0 {
		if in = c.roomiest(r.Within, in, held, n); in == nil {
			return c.counts, 0
		}
	}
	return c.counts, c.fill(in, max(0, r.Within), n)
}

// Release chooses the sites that up to n workers of a job leave, and returns how
// many leave each. Domains are left as wholes, the outermost first and those that
// hold least of the job, so that the job ends up in as few as there can be.
func Release(sites []Site, n int) []int {
	c := newChoice(sites)
	c.leave(c.all(), 0, n)
	return c.counts
}

// Inside reports whether all that a job holds is in one domain of so many levels.
func Inside(sites []Site, levels int) bool {
	c := newChoice(sites)
	held := -1
	for i := range sites {
		switch {
		case sites[i].Held == 0:
		case len(sites[i].Path) < levels:
			return false
		case held >= 0 && !slices.Equal(sites[held].Path[:levels], sites[i].Path[:levels]):
			return false
		default:
			held = i
		}
	}
	return levels <= c.depth || held < 0
}

// choice is a choice of sites while it is being made.
type choice struct {
	sites  []Site
	depth  int   // levels
	counts []int // by site
}

func newChoice(sites []Site) *choice {
	c := &choice{sites: sites, counts: make([]int, len(sites))}
	for i := range sites {
		c.depth = max(c.depth, len(sites[i].Path))
	}
	return c
}

func (c *choice) all() []int {
	out := make([]int, len(c.sites))
	for i := range out {
		out[i] = i
	}
	return out
}

// domain is the one that a site is in at a level; a site that spans several is
// one of its own, and each is at the innermost.
func (c *choice) domain(l, i int) int {
	if l < len(c.sites[i].Path) {
		return c.sites[i].Path[l]
	}
	return -1 - i
}

// divided are sites by their domains of a level.
func (c *choice) divided(in []int, l int) [][]int {
	var out [][]int
	at := make(map[int]int, len(in))
	for _, i := range in {
		d := c.domain(l, i)
		k, ok := at[d]
		if !ok {
			k = len(out)
			at[d] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], i)
	}
	return out
}

func (c *choice) sum(in []int, of func(*Site) int) int {
	n := 0
	for _, i := range in {
		n += of(&c.sites[i])
	}
	return n
}

func (c *choice) held(in []int) int { return c.sum(in, func(s *Site) int { return s.Held }) }
func (c *choice) room(in []int) int { return c.sum(in, func(s *Site) int { return s.Room }) }
func (c *choice) free(in []int) int {
	return c.sum(in, func(s *Site) int { return max(s.Room, s.Free) })
}

// parts is how many sites the job is at.
func (c *choice) parts(in []int) int { return c.sum(in, func(s *Site) int { return min(1, s.Held) }) }

// movable is how many workers may leave sites.
func (c *choice) movable(in []int) int {
	return c.sum(in, func(s *Site) int { return s.Held - s.Fixed })
}

// roomiest is the domain of so many levels that holds all that the job holds and
// n workers more with least to spare, or else the one that has most room; nil
// where there is none. Of equal ones it is that with least room around it.
func (c *choice) roomiest(levels int, in []int, held, n int) []int {
	type candidate struct {
		sites  []int
		around int
	}
	var best *candidate
	var search func(in []int, l, around int)
	search = func(in []int, l, around int) {
		for _, d := range c.divided(in, l) {
			switch {
			case c.domain(l, d[0]) < 0 || c.held(d) < held:
			case l+1 < levels:
				search(d, l+1, c.free(d))
			case best == nil || c.better(d, best.sites, n) || !c.better(best.sites, d, n) && around < best.around:
				best = &candidate{d, around}
			}
		}
	}
	search(in, 0, c.free(in))
	if best == nil {
		return nil
	}
	return best.sites
}

// better reports whether one domain is better for n workers than another.
func (c *choice) better(x, y []int, n int) bool {
	roomX, roomY := c.room(x), c.room(y)
	if roomX >= n && roomY >= n {
		return c.free(x) < c.free(y)
	}
	return roomX > roomY
}

// fill gives up to n workers to sites of one domain of so many levels.
func (c *choice) fill(in []int, l, n int) (placed int) {
	if len(in) == 1 || l > c.depth {
		for _, i := range in {
			k := min(n-placed, c.sites[i].Room)
			c.counts[i] += k
			placed += k
		}
		return placed
	}
	children := c.divided(in, l)
	slices.SortStableFunc(children, func(a, b []int) int { return cmp.Compare(c.held(b), c.held(a)) })
	for len(children) > 0 && placed < n && c.held(children[0]) > 0 {
		placed += c.fill(children[0], l+1, n-placed)
		children = children[1:]
	}
	for len(children) > 0 && placed < n {
		at := 0
		for k := range children {
			if c.better(children[k], children[at], n-placed) {
				at = k
			}
		}
		placed += c.fill(children[at], l+1, n-placed)
		children = slices.Delete(children, at, at+1)
	}
	return placed
}

// leave takes up to n workers from sites of one domain of so many levels.
func (c *choice) leave(in []int, l, n int) {
	if len(in) == 1 || l > c.depth {
		for _, i := range in {
			k := min(n, c.sites[i].Held-c.sites[i].Fixed)
			c.counts[i] += k
			n -= k
		}
		return
	}
	children := c.divided(in, l)
	children = slices.DeleteFunc(children, func(d []int) bool { return c.movable(d) <= 0 })
	slices.SortStableFunc(children, func(a, b []int) int {
		return cmp.Or(cmp.Compare(c.held(a), c.held(b)), cmp.Compare(c.parts(b), c.parts(a)))
	})
	for len(children) > 0 && n > 0 {
		at := 0
		if len(children) > 1 && c.movable(children[0])+c.movable(children[1]) > n {
			// Only one can be left as a whole: the largest.
			for i := range children {
				if k := c.movable(children[i]); k <= n && k > c.movable(children[at]) {
					at = i
				}
			}
		}
		k := min(n, c.movable(children[at]))
		c.leave(children[at], l+1, k)
		n -= k
		children = slices.Delete(children, at, at+1)
	}
}
