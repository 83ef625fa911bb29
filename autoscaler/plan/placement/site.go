// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import (
	"cmp"
	"slices"
)

// Site is a part of the cluster in which the number of a job's workers can be set. It is a
// group of the job that is bound to one domain or, in the simulator, a node.
type Site struct {
	// Path is the domain that the site is in at each level, outermost first. It is
	// shorter than that of other sites if the site spans several domains of the next
	// level.
	Path  []int
	Held  int // workers of the job at the site
	Fixed int // of these, those that must stay
	Room  int // more workers of the job that fit
	// Free is how many workers would fit if the job had no maximum; 0 means as many
	// as Room. Of several domains with room for a job, Grow chooses the one with the
	// least Free.
	Free int
}

// Rule states how close together the workers of a job have to be.
type Rule struct {
	// Levels is the number of levels, outermost first, at which to look for a domain
	// that holds all workers; 0 means all levels.
	Levels int
	// Within is the number of levels that must never be crossed: 2 keeps the job in one
	// domain of the second level.
	Within int
}

// Grow chooses the sites of up to n more workers of a job, and returns how many go to each
// and how many found room. They go into the innermost domain that holds the job's workers
// and has room for the new ones. Of several such domains, Grow chooses the one with the
// least room, so that large free domains stay large (best fit, as in Kueue's Topology Aware
// Scheduling). If no domain has room for all, they go to as few domains of each level as
// possible, first to the domains that hold most of the job. Grow never breaks Rule.Within,
// even if fewer workers find room because of it.
func Grow(sites []Site, n int, r Rule) (more []int, placed int) {
	c := newChoice(sites)
	if n <= 0 {
		return c.counts, 0
	}
	levels := c.depth
	if r.Levels > 0 {
		levels = min(levels, max(r.Levels, r.Within))
	}
	all := c.domain(c.order)
	s := search{choice: &c, held: all.held, n: n, within: r.Within, best: make([]candidate, max(levels, r.Within))}
	s.look(all, 0)
	for l := levels; l >= max(1, r.Within); l-- {
		if d := &s.best[l-1].domain; d.sites != nil && d.room >= n {
			return c.counts, c.fill(d, l, n)
		}
	}
	if r.Within > 0 {
		all = s.best[r.Within-1].domain // it lacks room for all, and may have no sites
	}
	return c.counts, c.fill(&all, max(0, r.Within), n)
}

// Release chooses the sites that up to n workers of a job leave, and returns how many leave
// each. It clears whole domains if possible, beginning at the outermost level, and at each
// level with the domains that hold the fewest of the job's workers. So the job ends up in
// as few domains as possible.
func Release(sites []Site, n int) []int {
	c := newChoice(sites)
	c.leave(c.order, 0, n)
	return c.counts
}

// Inside reports whether all workers of a job are in the same domain at each of the
// outermost levels, up to the given number of levels.
func Inside(sites []Site, levels int) bool {
	depth, held := 0, -1
	for i := range sites {
		depth = max(depth, len(sites[i].Path))
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
	return levels <= depth || held < 0
}

// choice is a choice of sites while it is being made. The planner makes several for each
// job that changes, so sites are sorted once, and the sums of a domain are computed once.
type choice struct {
	sites  []Site
	depth  int   // levels
	counts []int // by site
	order  []int // of the sites: those of a domain are adjacent at each level
}

func newChoice(sites []Site) choice {
	n := len(sites)
	both := make([]int, 2*n)
	c := choice{sites: sites, counts: both[:n:n], order: both[n:]}
	for i := range sites {
		c.depth = max(c.depth, len(sites[i].Path))
		c.order[i] = i
	}
	slices.SortStableFunc(c.order, func(a, b int) int {
		// Sites that span several domains come after those.
		return cmpPaths(sites[a].Path, sites[b].Path)
	})
	return c
}

// cmpPaths compares paths. A path comes before its own prefixes.
func cmpPaths(a, b []int) int {
	for l := range min(len(a), len(b)) {
		if a[l] != b[l] {
			return cmp.Compare(a[l], b[l])
		}
	}
	return cmp.Compare(len(b), len(a))
}

// domain holds the sites in one domain of some level, and their sums.
type domain struct {
	sites   []int // part of choice.order
	held    int
	room    int
	free    int
	movable int // workers that may leave
	parts   int // sites that the job is at
}

// domain returns the sums of sites.
func (c *choice) domain(sites []int) domain {
	d := domain{sites: sites}
	for _, i := range sites {
		s := &c.sites[i]
		d.held += s.Held
		d.room += s.Room
		d.free += max(s.Room, s.Free)
		d.movable += s.Held - s.Fixed
		d.parts += min(1, s.Held)
	}
	return d
}

// together reports whether two sites are in one domain of a level. Both must be in one
// domain of the level around it. A site that spans several domains counts as a domain
// of its own.
func (c *choice) together(l, a, b int) bool {
	p, q := c.sites[a].Path, c.sites[b].Path
	return l < len(p) && l < len(q) && p[l] == q[l]
}

// next returns the first domain of a level that sites are in, and the sites after it.
func (c *choice) next(sites []int, l int) (d domain, rest []int) {
	k := 1
	for k < len(sites) && c.together(l, sites[0], sites[k]) {
		k++
	}
	return c.domain(sites[:k]), sites[k:]
}

// divide appends the domains of a level that sites are in.
func (c *choice) divide(out []domain, sites []int, l int) []domain {
	for len(sites) > 0 {
		var d domain
		d, sites = c.next(sites, l)
		out = append(out, d)
	}
	return out
}

// search looks, at each level, for the domain that holds all of the job's workers and has
// room for n more with least to spare. If no domain has, it looks for the one with most
// room. Of equal domains, it takes the one whose surrounding domain has the least room.
type search struct {
	*choice
	held, n int
	within  int         // the level that must not be crossed
	best    []candidate // by level
}

type candidate struct {
	domain     // without sites if there is none
	around int // free in the domain around it
}

// look examines the domains of level l inside a domain of the next outer level.
func (s *search) look(around domain, l int) {
	if l == len(s.best) {
		return
	}
	best := &s.best[l]
	for rest := around.sites; len(rest) > 0; {
		var d domain
		d, rest = s.next(rest, l)
		if l >= len(s.sites[d.sites[0]].Path) || d.held < s.held {
			continue
		}
		if best.sites == nil || d.better(&best.domain, s.n) || !best.better(&d, s.n) && around.free < best.around {
			*best = candidate{d, around.free}
		}
		if d.room >= s.n || l+1 < s.within { // else none inside holds them
			s.look(d, l+1)
		}
	}
}

// better reports whether a domain is better for n workers than another.
func (d *domain) better(than *domain, n int) bool {
	if d.room >= n && than.room >= n {
		return d.free < than.free
	}
	return d.room > than.room
}

// fill gives up to n workers to the sites of a domain, divided by the domains
// of level l inside it.
func (c *choice) fill(d *domain, l, n int) (placed int) {
	if len(d.sites) < 2 || l > c.depth {
		for _, i := range d.sites {
			k := min(n-placed, c.sites[i].Room)
			c.counts[i] += k
			placed += k
		}
		return placed
	}
	var buf [8]domain
	children := c.divide(buf[:0], d.sites, l)
	slices.SortStableFunc(children, func(a, b domain) int { return cmp.Compare(b.held, a.held) })
	for len(children) > 0 && placed < n && children[0].held > 0 {
		placed += c.fill(&children[0], l+1, n-placed)
		children = children[1:]
	}
	for len(children) > 0 && placed < n {
		at := 0
		for k := range children {
			if children[k].better(&children[at], n-placed) {
				at = k
			}
		}
		placed += c.fill(&children[at], l+1, n-placed)
		children = slices.Delete(children, at, at+1)
	}
	return placed
}

// leave takes up to n workers from the sites of a domain, divided by the
// domains of level l inside it.
func (c *choice) leave(in []int, l, n int) {
	if len(in) == 1 || l > c.depth {
		for _, i := range in {
			k := min(n, c.sites[i].Held-c.sites[i].Fixed)
			c.counts[i] += k
			n -= k
		}
		return
	}
	var buf [8]domain
	children := c.divide(buf[:0], in, l)
	children = slices.DeleteFunc(children, func(d domain) bool { return d.movable <= 0 })
	slices.SortStableFunc(children, func(a, b domain) int {
		return cmp.Or(cmp.Compare(a.held, b.held), cmp.Compare(b.parts, a.parts))
	})
	for len(children) > 0 && n > 0 {
		at := 0
		if len(children) > 1 && children[0].movable+children[1].movable > n {
			// Only one can be left as a whole: the largest.
			for i := range children {
				if k := children[i].movable; k <= n && k > children[at].movable {
					at = i
				}
			}
		}
		k := min(n, children[at].movable)
		c.leave(children[at].sites, l+1, k)
		n -= k
		children = slices.Delete(children, at, at+1)
	}
}
