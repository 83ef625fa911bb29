// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"math"
	"slices"
)

// unbound is the room of a site that only its pool's slots bound.
const unbound = math.MaxInt / 4

// Rearrange finds moves of several jobs that together gain more than they cost,
// also where what a job needs is held by others: a job moves to where its steps
// are faster, and those that are in its way to where they lose least. It returns
// the moves by mover, none where nothing is worth its cost.
//
// It is a local search: as long as there is one, the change that gains most is
// made, at most one for each mover. free is the free slots of each pool. All of
// Moves can be made: those that cannot shrink first find their slots free, or
// freed by those that can.
func Rearrange(movers []Mover, free []int, o Options) map[int]Move {
	s := newSearch(movers, free, o)
	for range movers {
		if !s.step() {
			break
		}
	}
	out := map[int]Move{}
	for i := range s.now {
		if m := s.now[i].Move; m.Workers > 0 {
			out[i] = m
		}
	}
	return out
}

// search is a rearrangement while it is being found.
type search struct {
	movers []Mover
	free   []int // by pool, as the movers are now
	before []int // by pool, as they were
	now    []trial
	at     [][]int // movers by pool, sorted
	o      Options
}

// trial is a move of a mover that may be made.
type trial struct {
	Move
	worth float64 // its gain, less its cost with the margin
}

func newSearch(movers []Mover, free []int, o Options) *search {
	s := &search{
		movers: slices.Clone(movers), free: slices.Clone(free), before: free,
		now: make([]trial, len(movers)), at: make([][]int, len(free)), o: o,
	}
	for i := range s.movers {
		m := &s.movers[i]
		m.Sites = slices.Clone(m.Sites)
		for k, pool := range m.Pools {
			if pool < 0 {
				m.Sites[k].Room = 0
				continue
			}
			if m.Sites[k].Room >= free[pool]/m.Slots {
				m.Sites[k].Room = unbound
			}
		}
		s.now[i] = trial{Move: Move{Counts: m.counts(), Slowdown: 1}}
		for _, pool := range m.Pools {
			if pool >= 0 {
				s.note(i, pool)
			}
		}
	}
	return s
}

// try prices a mover at other counts; ok is false where it may not be there.
func (s *search) try(i int, counts []int) (t trial, ok bool) {
	m := &s.movers[i]
	if slices.Equal(counts, m.counts()) {
		return trial{Move: Move{Counts: counts, Slowdown: 1}}, true
	}
	t.Move, ok = m.move(counts, s.o)
	t.worth = t.Gain - (1+s.o.Hysteresis)*t.Cost
	return t, ok
}

// bundle is changes of several movers that only go together. The first is the one
// that gains.
type bundle struct {
	who   []int
	to    []trial
	worth float64
}

// step makes the change that gains most.
func (s *search) step() bool {
	var best bundle
	for i := range s.movers {
		if s.movers[i].Slowdown == nil || s.movers[i].size() == 0 {
			continue
		}
		for _, counts := range s.elsewhere(i) {
			if b, ok := s.exchange(i, counts, best.worth); ok && s.possible(&b) {
				best = b
			}
		}
	}
	if best.worth <= 0 {
		return false
	}
	s.apply(&best)
	return true
}

// elsewhere is where a mover might rather be: as many workers as can be at each
// site and the rest where most are, or those of a site, or one of them, at another.
func (s *search) elsewhere(i int) [][]int {
	m, counts := &s.movers[i], s.now[i].Counts
	var out [][]int
	for to := range counts {
		if m.Pools[to] < 0 {
			continue
		}
		if gathered := s.around(i, to); gathered != nil {
			out = append(out, gathered)
		}
		for from, n := range counts {
			if from == to || n == 0 {
				continue
			}
			out = append(out, shifted(counts, from, to, n))
			if n > 1 {
				out = append(out, shifted(counts, from, to, 1))
			}
		}
	}
	return out
}

func shifted(counts []int, from, to, n int) []int {
	out := slices.Clone(counts)
	out[from] -= n
	out[to] += n
	return out
}

// around is a mover with as many workers as can be at a site, and the rest where
// it has most of them.
func (s *search) around(i, to int) []int {
	counts := s.now[i].Counts
	out := make([]int, len(counts))
	n := 0
	for _, k := range counts {
		n += k
	}
	put := func(k int) {
		out[k] = min(n, s.capacity(i, k))
		n -= out[k]
	}
	put(to)
	order := make([]int, 0, len(counts))
	for k := range counts {
		if k != to && counts[k] > 0 {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return counts[b] - counts[a] })
	for _, k := range order {
		put(k)
	}
	if n > 0 {
		return nil
	}
	return out
}

// capacity is how many workers of a mover a site could have, with the slots that
// are free there and those of workers that may move.
func (s *search) capacity(i, site int) int {
	pool := s.movers[i].Pools[site]
	if pool < 0 {
		return s.now[i].Counts[site]
	}
	slots := s.free[pool]
	for _, k := range s.at[pool] {
		for at, p := range s.movers[k].Pools {
			if p == pool {
				slots += (s.now[k].Counts[at] - s.movers[k].Sites[at].Fixed) * s.movers[k].Slots
			}
		}
	}
	return slots / s.movers[i].Slots
}

// exchange is the bundle that puts a mover elsewhere and others out of its way, if
// it is worth more than least.
func (s *search) exchange(i int, counts []int, least float64) (bundle, bool) {
	var b bundle
	t, ok := s.try(i, counts)
	// Others lose by making room, or else they are found by themselves.
	if !ok || t.worth-s.now[i].worth <= least || t.Slowdown > s.now[i].Slowdown*(1-s.o.LeastGain) {
		return b, false
	}
	b.put(i, t)
	change := s.change(&b)
	for _, pool := range s.movers[i].Pools {
		for pool >= 0 && s.free[pool]+change[pool] < 0 {
			if !s.evict(&b, pool, change) {
				return b, false
			}
		}
	}
	for k, who := range b.who {
		b.worth += b.to[k].worth - s.now[who].worth
	}
	return b, b.worth > least
}

// change is what a bundle changes of the free slots, by pool.
func (s *search) change(b *bundle) map[int]int {
	out := map[int]int{}
	for k, i := range b.who {
		for site, pool := range s.movers[i].Pools {
			if d := s.now[i].Counts[site] - b.to[k].Counts[site]; d != 0 && pool >= 0 {
				out[pool] += d * s.movers[i].Slots
			}
		}
	}
	return out
}

// evict takes one worker out of a pool: of the mover that loses least by it.
func (s *search) evict(b *bundle, pool int, change map[int]int) bool {
	who, to, into := -1, trial{}, 0
	least := math.Inf(1)
	for _, i := range s.at[pool] {
		if i == b.who[0] {
			continue
		}
		m, now := &s.movers[i], b.of(i, s.now[i])
		from := -1
		for site, p := range m.Pools {
			if p == pool && now.Counts[site] > 0 {
				from = site
			}
		}
		if from < 0 {
			continue
		}
		for _, site := range s.rooms(m, pool, change) {
			t, ok := s.try(i, shifted(now.Counts, from, site, 1))
			if ok && now.worth-t.worth < least {
				who, to, into, least = i, t, m.Pools[site], now.worth-t.worth
			}
		}
	}
	if who < 0 {
		return false
	}
	b.put(who, to)
	change[pool] += s.movers[who].Slots
	change[into] -= s.movers[who].Slots
	return true
}

// rooms are sites of a mover outside a pool that have a free slot for it: those
// that are being vacated, and the one that fits best besides.
func (s *search) rooms(m *Mover, pool int, change map[int]int) []int {
	var out []int
	best := -1
	for site, p := range m.Pools {
		if p < 0 || p == pool || s.free[p]+change[p] < m.Slots {
			continue
		}
		switch {
		case change[p] > 0:
			out = append(out, site)
		case best < 0 || s.free[p]+change[p] < s.free[m.Pools[best]]+change[m.Pools[best]]:
			best = site
		}
	}
	if best >= 0 {
		out = append(out, best)
	}
	return out
}

// possible reports whether the moves can be made, the bundle and those before it:
// who cannot shrink first needs slots that are free, or freed by those who can.
func (s *search) possible(b *bundle) bool {
	need := map[int]int{}
	for i := range s.movers {
		t := b.of(i, s.now[i])
		if t.Workers == 0 {
			continue
		}
		m := &s.movers[i]
		shrinks := m.size() > t.Workers && m.may(m.size()-t.Workers)
		for site, pool := range m.Pools {
			if d := (t.Counts[site] - m.Sites[site].Held) * m.Slots; pool >= 0 && (shrinks && d < 0 || !shrinks && d > 0) {
				need[pool] += d
			}
		}
	}
	for pool, n := range need {
		if n > s.before[pool] {
			return false
		}
	}
	return true
}

// apply makes a bundle.
func (s *search) apply(b *bundle) {
	for pool, n := range s.change(b) {
		s.free[pool] += n
	}
	for k, i := range b.who {
		s.now[i] = b.to[k]
		for _, pool := range s.movers[i].Pools {
			if pool >= 0 {
				s.note(i, pool)
			}
		}
	}
}

// note keeps whether a mover has workers in a pool.
func (s *search) note(i, pool int) {
	n := 0
	for site, p := range s.movers[i].Pools {
		if p == pool {
			n += s.now[i].Counts[site]
		}
	}
	at, here := slices.BinarySearch(s.at[pool], i)
	switch {
	case here && n == 0:
		s.at[pool] = slices.Delete(s.at[pool], at, at+1)
	case !here && n > 0:
		s.at[pool] = slices.Insert(s.at[pool], at, i)
	}
}

func (b *bundle) put(i int, t trial) {
	if k := slices.Index(b.who, i); k >= 0 {
		b.to[k] = t
		return
	}
	b.who, b.to = append(b.who, i), append(b.to, t)
}

// of is where a mover is in the bundle, or otherwise.
func (b *bundle) of(i int, otherwise trial) trial {
	if k := slices.Index(b.who, i); k >= 0 {
		return b.to[k]
	}
	return otherwise
}
