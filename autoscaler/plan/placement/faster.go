// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import "slices"

// Ratio is the time of a step with so many workers at each site, as a multiple of
// that with as many elsewhere; 1 where it is unknown.
type Ratio func(counts, elsewhere []int) float64

// worthwhile is the least difference of two times that decides: a measurement is
// not more exact.
const worthwhile = 0.02

// mostTogether is the greatest number of workers of a site that is tried as a bound.
const mostTogether = 4

// GrowFaster is Grow, but that workers go further apart where their steps are known
// to be faster so: of ways that are as fast, in that which is least far apart. A nil
// ratio knows of none.
func GrowFaster(sites []Site, n int, r Rule, ratio Ratio) (more []int, placed int) {
	more, placed = Grow(sites, n, r)
	if ratio == nil {
		return more, placed
	}
	then := held(sites) + placed
	best, reference := 1.0, moved(sites, more, 1)
	for most := mostTogether; most > 0; most /= 2 {
		if most >= then {
			continue
		}
		capped := slices.Clone(sites)
		for i := range capped {
			capped[i].Room = min(capped[i].Room, max(0, most-capped[i].Held))
		}
		others, k := Grow(capped, n, r)
		if k < placed || slices.Equal(others, more) {
			continue
		}
		if t := ratio(moved(sites, others, 1), reference); t < best-worthwhile {
			best, more = t, others
		}
	}
	return more, placed
}

// ReleaseFaster is Release, but that those that stay are left further apart where
// their steps are known to be faster so, and Rule.Within allows it: of ways that are
// as fast, in that which is least far apart. A nil ratio knows of none.
func ReleaseFaster(sites []Site, n int, r Rule, ratio Ratio) (less []int) {
	less = Release(sites, n)
	if ratio == nil {
		return less
	}
	left := held(sites) - n
	best, reference := 1.0, moved(sites, less, -1)
	for most := mostTogether; most > 0; most /= 2 {
		if most >= left {
			continue
		}
		others := thinned(sites, n, most)
		if slices.Equal(others, less) || !insideAfter(sites, others, r.Within) {
			continue
		}
		if t := ratio(moved(sites, others, -1), reference); t < best-worthwhile {
			best, less = t, others
		}
	}
	return less
}

// thinned are the sites that n workers leave, where those go first that are more
// than so many together, from where there are most.
func thinned(sites []Site, n, most int) []int {
	less := make([]int, len(sites))
	for ; n > 0; n-- {
		at := -1
		for i := range sites {
			left := sites[i].Held - less[i]
			if left > max(most, sites[i].Fixed) && (at < 0 || left > sites[at].Held-less[at]) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		less[at]++
	}
	rest := slices.Clone(sites)
	for i := range rest {
		rest[i].Held -= less[i]
	}
	for i, k := range Release(rest, n) {
		less[i] += k
	}
	return less
}

func held(sites []Site) int {
	n := 0
	for i := range sites {
		n += sites[i].Held
	}
	return n
}

// insideAfter reports whether all are in one domain of so many levels when some
// have left.
func insideAfter(sites []Site, less []int, levels int) bool {
	if levels == 0 {
		return true
	}
	left := slices.Clone(sites)
	for i, n := range less {
		left[i].Held -= n
	}
	return Inside(left, levels)
}

// moved are the workers at each site after so many have come (1) or left (-1).
func moved(sites []Site, by []int, sign int) []int {
	out := make([]int, len(sites))
	for i := range sites {
		out[i] = sites[i].Held + sign*by[i]
	}
	return out
}
