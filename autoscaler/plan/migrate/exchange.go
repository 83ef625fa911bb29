// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"cmp"
	"math"
	"slices"
)

// Bounds of the search for one mover. If the mover has more sites, only the most
// promising ones are searched.
const (
	sitesLimit     = 16 // to which its workers may go, and from which
	evictionsLimit = 64 // workers of others that make room for one change
)

// candidate is a change that a mover might gain from: n workers move from one site to
// another or, if from is -1, as many workers as possible move to site to.
type candidate struct {
	from, to, n int
	netGain     float64
}

// preferred returns the candidates at which a mover's steps are faster by more than the
// move costs. They depend on where the mover is now.
func (s *search) preferred(i int) []candidate {
	m := &s.movers[i]
	if m.Slowdown == nil || m.size() == 0 {
		return nil
	}
	if s.candidates[i] != nil {
		return s.candidates[i]
	}
	out := []candidate{}
	now := &s.now[i]
	look := func(c candidate) {
		if s.scratch = s.counts(i, c, s.scratch); s.scratch == nil {
			return
		}
		t, ok := s.try(i, s.scratch)
		c.netGain = t.netGain
		// Other movers only lose by making room. Their own gains are candidates of their
		// own.
		if ok && t.netGain-now.netGain > 0 && t.Slowdown <= now.Slowdown*(1-s.o.LeastGain) {
			out = append(out, c)
		}
	}
	defer s.save(2)() // the rest is for making room
	from := s.sources(i)
	for _, to := range s.destinations(i) {
		if !s.enough() {
			return out
		}
		look(candidate{-1, to, 0, 0})
		for _, f := range from {
			if f == to {
				continue
			}
			n := now.Counts[f]
			look(candidate{f, to, n, 0})
			if n > 1 {
				look(candidate{f, to, 1, 0})
			}
		}
	}
	if s.enough() {
		s.candidates[i] = out
	}
	return out
}

// destinations returns the sites to which a mover's workers may go: first those with most
// of its workers, then those with most free slots.
func (s *search) destinations(i int) []int {
	m, counts, size := &s.movers[i], s.now[i].Counts, s.movers[i].size()
	var out []int
	for site, pool := range m.Pools {
		if pool >= 0 {
			out = append(out, site)
		}
	}
	room := func(site int) int { return min(s.free[m.Pools[site]]/m.Slots, size) }
	return s.limited(i, out, func(a, b int) int { return cmp.Or(counts[b]-counts[a], room(b)-room(a)) })
}

// sources returns the sites that a mover's workers may leave: first those with fewest of
// its workers.
func (s *search) sources(i int) []int {
	counts := s.now[i].Counts
	var out []int
	for site, n := range counts {
		if n > 0 {
			out = append(out, site)
		}
	}
	return s.limited(i, out, func(a, b int) int { return counts[a] - counts[b] })
}

// limited returns the first sites in the order that by defines. Equal sites come in an
// order that differs by mover and turn, so that none is always left out.
func (s *search) limited(i int, sites []int, by func(a, b int) int) []int {
	s.spend(len(sites))
	if len(sites) <= sitesLimit {
		return sites
	}
	from := (max(0, s.o.Offset)/len(s.movers) + i) % len(sites) // another each time that it is the first
	sites = slices.Concat(sites[from:], sites[:from])
	slices.SortStableFunc(sites, by)
	return sites[:sitesLimit]
}

// counts returns the worker counts by site after candidate c, reusing out; nil if they do
// not fit.
func (s *search) counts(i int, c candidate, out []int) []int {
	now := s.now[i].Counts
	out = append(out[:0], now...)
	if c.from >= 0 {
		out[c.from] -= c.n
		out[c.to] += c.n
		return out
	}
	left := 0
	for _, n := range now {
		left += n
	}
	clear(out)
	put := func(site int) {
		out[site] = min(left, s.most(i, site))
		left -= out[site]
	}
	put(c.to)
	s.sites = s.sites[:0]
	for site, n := range now {
		if site != c.to && n > 0 {
			s.sites = append(s.sites, site)
		}
	}
	slices.SortStableFunc(s.sites, func(a, b int) int { return now[b] - now[a] })
	for _, site := range s.sites {
		put(site)
	}
	if left > 0 {
		return nil
	}
	return out
}

// most returns how many workers of a mover a site could have, if they used all free slots
// and the slots of all workers that may move.
func (s *search) most(i, site int) int {
	pool := s.movers[i].Pools[site]
	if pool < 0 {
		return s.now[i].Counts[site]
	}
	return s.capacity[pool] / s.movers[i].Slots
}

// bundle holds changes of several movers that are made together. The first is that of the
// mover that gains.
type bundle struct {
	who     []int
	to      []trial
	netGain float64
}

func (b *bundle) clone() bundle { return bundle{slices.Clone(b.who), slices.Clone(b.to), b.netGain} }

// exchange makes the bundle of a candidate and the moves that make room for it, and
// reports whether the bundle is possible and gains more than the best one.
func (s *search) exchange(i int, c candidate, best *bundle) bool {
	defer s.save(4)()
	t, ok := s.try(i, s.counts(i, c, nil))
	if !ok {
		return false
	}
	s.put(i, t)
	evicted := 0
	for _, pool := range s.movers[i].Pools {
		for pool >= 0 && s.free[pool]+s.change[pool] < 0 {
			if evicted++; evicted > evictionsLimit || !s.evict(pool) {
				return false
			}
		}
	}
	b := &s.made
	for k, who := range b.who {
		b.netGain += b.to[k].netGain - s.now[who].netGain
	}
	return b.netGain > best.netGain && s.possible(b)
}

// put sets a mover's counts in the bundle that is being made.
func (s *search) put(i int, t trial) {
	m, before := &s.movers[i], s.of(i).Counts
	for site, pool := range m.Pools {
		if pool >= 0 {
			s.change[pool] += (before[site] - t.Counts[site]) * m.Slots
		}
	}
	if k := s.in[i]; k > 0 {
		s.made.to[k-1] = t
		return
	}
	s.made.who, s.made.to = append(s.made.who, i), append(s.made.to, t)
	s.in[i] = len(s.made.who)
}

// of returns a mover's counts in the bundle, or its current counts if it is not part of the
// bundle.
func (s *search) of(i int) *trial {
	if k := s.in[i]; k > 0 {
		return &s.made.to[k-1]
	}
	return &s.now[i]
}

// clear begins another bundle.
func (s *search) clear() {
	for _, i := range s.made.who {
		s.in[i] = 0
		for _, pool := range s.movers[i].Pools {
			if pool >= 0 {
				s.change[pool] = 0
			}
		}
	}
	s.made.who, s.made.to, s.made.netGain = s.made.who[:0], s.made.to[:0], 0
}

// evict moves one worker out of a pool. It chooses a worker of the mover that loses least.
func (s *search) evict(pool int) bool {
	who, from, to := -1, -1, -1
	least := math.Inf(1)
	for _, r := range s.at[pool] {
		if r.mover == s.made.who[0] {
			continue
		}
		now := s.of(r.mover)
		at := -1
		for _, site := range r.sites {
			if now.Counts[site] > 0 {
				at = site
			}
		}
		if at < 0 {
			continue
		}
		for _, site := range s.rooms(r.mover, pool) {
			if loss := now.netGain - s.without(r.mover, at, site); loss < least {
				who, from, to, least = r.mover, at, site, loss
			}
		}
	}
	if who < 0 {
		return false
	}
	t, ok := s.try(who, shifted(s.of(who).Counts, from, to))
	if ok {
		s.put(who, t)
	}
	return ok
}

// shifted returns counts with one worker moved.
func shifted(counts []int, from, to int) []int {
	out := slices.Clone(counts)
	out[from]--
	out[to]++
	return out
}

// without returns the net gain of a mover with one worker moved from a site to another; it
// is -Inf if the worker may not move there.
func (s *search) without(i, from, to int) float64 {
	ask := func() float64 {
		s.scratch = append(s.scratch[:0], s.of(i).Counts...)
		s.scratch[from]--
		s.scratch[to]++
		if t, ok := s.try(i, s.scratch); ok {
			return t.netGain
		}
		return math.Inf(-1)
	}
	if s.in[i] > 0 {
		return ask()
	}
	s.spend(2)
	sites := len(s.movers[i].Sites)
	if s.netGains[i] == nil {
		s.netGains[i] = make([][]float64, sites)
		s.spend(sites)
	}
	row := s.netGains[i][from]
	if row == nil {
		row = make([]float64, sites)
		for k := range row {
			row[k] = math.NaN()
		}
		s.netGains[i][from] = row
		s.spend(sites)
	}
	if math.IsNaN(row[to]) {
		w := ask()
		if !s.enough() {
			return w
		}
		row[to] = w
	}
	return row[to]
}

// rooms returns sites of a mover outside a pool that have room for one of its workers: all
// sites that are being vacated, and one other site, the one with the least room.
func (s *search) rooms(i, pool int) []int {
	m := &s.movers[i]
	s.spend(4 + len(m.Pools))
	s.sites = s.sites[:0]
	best, least := -1, 0
	for site, p := range m.Pools {
		if p < 0 || p == pool {
			continue
		}
		free := s.free[p] + s.change[p]
		if free < m.Slots {
			continue
		}
		if s.change[p] > 0 {
			s.sites = append(s.sites, site)
		} else if best < 0 || free < least {
			best, least = site, free
		}
	}
	if best >= 0 {
		s.sites = append(s.sites, best)
	}
	return s.sites
}
