// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// Gang is a waiting job that could start if free slots were in one place. Enough slots are
// free, but in different domains.
type Gang struct {
	Workers int
	Slots   int     // of one worker
	Wait    float64 // seconds that it is expected to wait if nothing moves
}

// Mover is a job whose workers may move.
type Mover struct {
	Job
	// Pools has, by site, the pool of slots that the site's room is in. Sites of several
	// jobs may share a pool. -1 means that no worker moves to the site.
	Pools []int
	// Most is an upper bound on the workers at each site, in addition to the free
	// slots; nil means none.
	Most []int
}

// Target is a domain in which a gang could start.
type Target struct {
	Missing int   // slots that have to be freed there
	Pools   []int // its pools
}

// Cleared is the result of Clear: the moves after which a gang can start.
type Cleared struct {
	Target int
	Moves  map[int]Move // by mover
	Gain   float64      // slot-seconds, less what the movers lose
	Cost   float64      // slot-seconds
}

// Workers returns how many workers move.
func (c *Cleared) Workers() int {
	n := 0
	for _, m := range c.Moves {
		n += m.Workers
	}
	return n
}

// rounds bounds how often a flow is sought for one target. After each round, a job that may
// not make its move has to take part with fewer workers or none.
const rounds = 16

// Clear finds moves that free a target for a gang, and reports whether it found any whose
// gain justifies their cost. free has the free slots of each pool. Clear chooses the target
// for which the fewest workers move, and of equal ones the cheapest. All workers that move
// have the same number of slots.
func Clear(g Gang, targets []Target, movers []Mover, free []int, o Options) (Cleared, bool) {
	var best Cleared
	found := false
	gain := float64(g.Workers*g.Slots) * g.Wait
	for t := range targets {
		for _, slots := range slotSizes(movers) {
			c := clearing{target: &targets[t], movers: movers, free: free, slots: slots, o: o}
			moves := c.moves()
			if moves == nil {
				continue
			}
			out := Cleared{Target: t, Moves: moves, Gain: gain}
			for _, m := range moves {
				out.Gain += min(0, m.Gain) // only losses count: a mover's own gain is not the gang's
				out.Cost += m.Cost
			}
			if !o.justifies(out.Gain, out.Cost) {
				continue
			}
			if n, least := out.Workers(), best.Workers(); !found || n < least || n == least && out.Cost < best.Cost {
				best, found = out, true
			}
		}
	}
	return best, found
}

func slotSizes(movers []Mover) []int {
	seen := map[int]bool{}
	for i := range movers {
		if movers[i].Slots > 0 {
			seen[movers[i].Slots] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// clearing searches for moves that free one target. All workers that move have the same
// number of slots.
type clearing struct {
	target *Target
	movers []Mover
	free   []int
	slots  int
	o      Options
}

func (c *clearing) inside(pool int) bool { return slices.Contains(c.target.Pools, pool) }

// moves returns the moves that free the target, or nil if there are none.
func (c *clearing) moves() map[int]Move {
	want := (c.target.Missing + c.slots - 1) / c.slots
	if want <= 0 {
		return nil
	}
	most := make([]int, len(c.movers))
	for i := range c.movers {
		most[i] = c.leaving(i)
	}
	for range rounds {
		f := c.flow(most)
		if f.send(f.source, f.sink, want) < want {
			return nil
		}
		out := map[int]Move{}
		valid := true
		for i := range c.movers {
			more, n := f.taken(i)
			if n == 0 {
				continue
			}
			m, ok := c.movers[i].move(c.counts(i, more, n), c.o)
			if _, size := c.movers[i].way(n); !ok && !size {
				most[i], valid = c.fewer(i, n), false
				continue
			} else if !ok {
				most[i], valid = 0, false // it would cross what it must not
				continue
			}
			out[i] = m
		}
		if valid {
			return out
		}
	}
	return nil
}

// leaving returns how many workers of a job could leave the target.
func (c *clearing) leaving(i int) int {
	m, n := &c.movers[i], 0
	if m.Slots != c.slots {
		return 0
	}
	for s := range m.Sites {
		if c.inside(m.Pools[s]) {
			n += m.Sites[s].Held - m.Sites[s].Fixed
		}
	}
	if _, ok := m.way(n); n > 0 && !ok {
		return c.fewer(i, n)
	}
	return n
}

// fewer returns the greatest number of workers below n that may move.
func (c *clearing) fewer(i, n int) int {
	for n--; n > 0; n-- {
		if _, ok := c.movers[i].way(n); ok {
			return n
		}
	}
	return 0
}

// counts returns a job's worker counts by site after n of its workers have left the
// target and moved to the sites in more.
func (c *clearing) counts(i int, more []int, n int) []int {
	m := &c.movers[i]
	counts := m.counts()
	var inside []placement.Site
	var at []int
	for s := range m.Sites {
		if c.inside(m.Pools[s]) {
			inside, at = append(inside, m.Sites[s]), append(at, s)
		}
	}
	for k, less := range placement.Release(inside, n) {
		counts[at[k]] -= less
	}
	for s, k := range more {
		counts[s] += k
	}
	return counts
}

// The costs of a worker that moves, and of a site that is new to its job. The
// second decides between moves of the same number of workers.
const (
	moved = 1000
	apart = 1
)

// flows is the network from jobs in the target through their other sites to pools.
type flows struct {
	*network
	source, sink int
	sites        [][]int // by mover and site: the edge there, -1 for none
}

func (c *clearing) flow(most []int) *flows {
	n := len(c.movers)
	f := &flows{network: newNetwork(2 + n + len(c.free)), source: 0, sink: 1, sites: make([][]int, n)}
	for p, slots := range c.free {
		if !c.inside(p) {
			f.connect(2+n+p, f.sink, max(0, slots/c.slots), 0)
		}
	}
	for i := range c.movers {
		f.sites[i] = make([]int, len(c.movers[i].Sites))
		for s := range c.movers[i].Sites {
			site, pool := &c.movers[i].Sites[s], c.movers[i].Pools[s]
			f.sites[i][s] = -1
			if most[i] == 0 || pool < 0 || c.inside(pool) || site.Room <= 0 {
				continue
			}
			cost := apart
			if site.Held > 0 {
				cost = 0
			}
			f.sites[i][s] = f.connect(2+i, 2+n+pool, site.Room, cost)
		}
		if most[i] > 0 {
			f.connect(f.source, 2+i, most[i], moved)
		}
	}
	return f
}

// taken returns how many workers of a job move to each of its sites, and their sum.
func (f *flows) taken(i int) (more []int, n int) {
	more = make([]int, len(f.sites[i]))
	for s, e := range f.sites[i] {
		if e >= 0 {
			more[s] = f.used(e)
			n += more[s]
		}
	}
	return more, n
}
