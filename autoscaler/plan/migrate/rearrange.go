// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"math"
	"slices"
)

// unbound is the room of a site that only its pool's slots limit.
const unbound = math.MaxInt / 4

// Rearrange finds moves of several jobs that together gain more than they cost. A job moves
// to where its steps are faster. If other jobs hold the slots there, they move to where
// they lose least. Rearrange returns the moves by mover, and how much of Options.Budget it
// spent. It returns no moves if none are worth their cost. free has the free slots of each
// pool.
//
// It is a local search with at most one step for each mover. Each step makes the change
// that gains most or, if the budget is not enough to examine all changes, the best one
// examined. All returned moves can be made together. A job that may not shrink first needs
// additional slots at the beginning: these are free, or other jobs that shrink first free
// them.
func Rearrange(movers []Mover, free []int, o Options) (moves map[int]Move, spent int) {
	s := newSearch(movers, free, o)
	for range movers {
		if !s.step() {
			break
		}
	}
	moves = map[int]Move{}
	for i := range s.now {
		if m := s.now[i].Move; m.Workers > 0 {
			moves[i] = m
		}
	}
	return moves, o.Budget - s.left
}

// search is a rearrangement while it is being found.
type search struct {
	movers   []Mover
	free     []int // by pool, as the movers are now
	before   []int // by pool, as they were
	capacity []int // by pool: slots that are free or of workers that may move
	now      []trial
	at       [][]resident // by pool, sorted by mover
	need     needs
	o        Options

	was        [][]int       // by mover: its counts before
	candidates [][]candidate // by mover: see preferred; nil if not looked at
	netGains   [][][]float64 // by mover and two sites: with one worker moved; nil if not looked at

	left, least int // of the budget: what is left, and what must remain after this step
	first       int // the mover that the next step looks at first

	made    bundle // that is being made
	in      []int  // by mover: one more than its index in that bundle, 0 if not in it
	change  []int  // by pool: how that bundle changes the free slots
	scratch []int
	sites   []int
}

// trial is a move of a mover that may be made.
type trial struct {
	Move
	netGain float64 // its gain, less its cost with the margin
}

// resident is a mover that has workers in a pool, and all its sites there.
type resident struct {
	mover int
	sites []int
}

func newSearch(movers []Mover, free []int, o Options) *search {
	n := len(movers)
	s := &search{
		movers: slices.Clone(movers), free: slices.Clone(free), before: free, capacity: slices.Clone(free),
		now: make([]trial, n), at: make([][]resident, len(free)), need: newNeeds(len(free)), o: o,
		was: make([][]int, n), candidates: make([][]candidate, n), netGains: make([][][]float64, n),
		left: o.Budget, in: make([]int, n), change: make([]int, len(free)),
	}
	if n > 0 {
		s.first = max(0, o.Offset) % n
	}
	for i := range s.movers {
		m := &s.movers[i]
		m.Sites = slices.Clone(m.Sites)
		s.was[i] = m.counts()
		s.now[i] = trial{Move: Move{Counts: s.was[i], Slowdown: 1}}
		for k, pool := range m.Pools {
			if pool < 0 {
				m.Sites[k].Room = 0
				continue
			}
			if m.Sites[k].Room >= free[pool]/m.Slots {
				m.Sites[k].Room = unbound
			}
			if m.Most != nil {
				m.Sites[k].Room = min(m.Sites[k].Room, max(0, m.Most[k]-m.Sites[k].Held))
			}
			s.capacity[pool] += (m.Sites[k].Held - m.Sites[k].Fixed) * m.Slots
		}
		s.settle(i)
	}
	return s
}

// spend takes n from the budget, and reports whether any is left for this step.
func (s *search) spend(n int) bool {
	if s.enough() {
		s.left -= n
	}
	return s.enough()
}

func (s *search) enough() bool { return s.left >= s.least }

// save limits spending to 1/parts of the step's remaining budget, until the returned
// function is called.
func (s *search) save(parts int) func() {
	least := s.least
	s.least = s.left - max(0, s.left-least)/parts
	return func() { s.least = least }
}

// price returns how much of the budget the pricing of a mover's counts takes. It looks at
// each site several times: for its room, the rule, the size and the step time.
func price(sites int) int { return 64 + 4*sites }

// try prices a mover at other counts; ok is false if it may not have them, or if the
// budget is not enough to find out.
func (s *search) try(i int, counts []int) (t trial, ok bool) {
	m := &s.movers[i]
	if !s.spend(price(len(counts))) {
		return t, false
	}
	if slices.Equal(counts, s.was[i]) {
		return trial{Move: Move{Counts: counts, Slowdown: 1}}, true
	}
	t.Move, ok = m.move(counts, s.o)
	t.netGain = t.Gain - (1+s.o.Hysteresis)*t.Cost
	return t, ok
}

// step makes the change that gains most, of those that it can look at with half of the
// remaining budget. It returns false when there is none.
func (s *search) step() bool {
	s.least = s.left - s.left/2
	var best bundle
	n, first := len(s.movers), s.first
	for k := range n {
		i := (first + k) % n
		for _, c := range s.preferred(i) {
			if c.netGain-s.now[i].netGain > best.netGain && s.exchange(i, c, &best) {
				best = s.made.clone()
			}
			s.clear()
		}
		if !s.spend(1) {
			s.first = (i + 1) % n
			break
		}
	}
	if best.netGain > 0 {
		s.apply(&best)
		return true
	}
	return !s.enough() && s.left > 0
}

// apply makes a bundle.
func (s *search) apply(b *bundle) {
	for k, i := range b.who {
		s.need.add(&s.movers[i], &s.now[i], -1)
		for site, pool := range s.movers[i].Pools {
			if pool >= 0 {
				s.free[pool] += (s.now[i].Counts[site] - b.to[k].Counts[site]) * s.movers[i].Slots
			}
		}
		s.now[i] = b.to[k]
		s.need.add(&s.movers[i], &s.now[i], 1)
		s.candidates[i], s.netGains[i] = nil, nil
		s.settle(i)
	}
}

// settle updates in which pools a mover has workers.
func (s *search) settle(i int) {
	m := &s.movers[i]
	sites := make([]int, 0, len(m.Pools)) // by pool
	for site, pool := range m.Pools {
		if pool >= 0 {
			sites = append(sites, site)
		}
	}
	slices.SortStableFunc(sites, func(a, b int) int { return m.Pools[a] - m.Pools[b] })
	for len(sites) > 0 {
		pool, k, workers := m.Pools[sites[0]], 0, 0
		for ; k < len(sites) && m.Pools[sites[k]] == pool; k++ {
			workers += s.now[i].Counts[sites[k]]
		}
		at, here := slices.BinarySearchFunc(s.at[pool], i, func(r resident, i int) int { return r.mover - i })
		switch {
		case here && workers == 0:
			s.at[pool] = slices.Delete(s.at[pool], at, at+1)
		case !here && workers > 0:
			s.at[pool] = slices.Insert(s.at[pool], at, resident{i, sites[:k:k]})
		}
		sites = sites[k:]
	}
}

// needs counts the slots of each pool that moves need before they begin. Movers that cannot
// shrink first need slots that are free, or that are freed by movers that can.
type needs struct {
	slots []int
	moves []int // how many sites change them
}

func newNeeds(pools int) needs { return needs{make([]int, pools), make([]int, pools)} }

// add counts a move; with sign -1, it removes the move again.
func (n *needs) add(m *Mover, t *trial, sign int) {
	if t.Workers == 0 {
		return
	}
	size := m.size()
	shrinks := size > t.Workers && m.may(size-t.Workers)
	for site, pool := range m.Pools {
		if d := (t.Counts[site] - m.Sites[site].Held) * m.Slots; pool >= 0 && (shrinks && d < 0 || !shrinks && d > 0) {
			n.slots[pool] += sign * d
			n.moves[pool] += sign
		}
	}
}

// possible reports whether the bundle can be made together with the moves so far.
func (s *search) possible(b *bundle) bool {
	ok := true
	for k, i := range b.who {
		s.need.add(&s.movers[i], &s.now[i], -1)
		s.need.add(&s.movers[i], &b.to[k], 1)
	}
	for _, i := range b.who {
		for _, pool := range s.movers[i].Pools {
			ok = ok && (pool < 0 || s.need.moves[pool] == 0 || s.need.slots[pool] <= s.before[pool])
		}
	}
	for k, i := range b.who {
		s.need.add(&s.movers[i], &b.to[k], -1)
		s.need.add(&s.movers[i], &s.now[i], 1)
	}
	return ok
}
