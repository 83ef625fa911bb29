// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import "slices"

// Ratio compares two placements of a job, each given as the number of workers at each
// site. It returns the time of a step with counts, as a multiple of the time with
// elsewhere, or 1 if that is unknown.
type Ratio func(counts, elsewhere []int) float64

// worthwhile is the part by which two times must differ at least to affect a choice.
// Measurements are not more exact than that.
const worthwhile = 0.02

// mostTogether is the largest bound on the workers of a site that is tried.
const mostTogether = 4

// GrowFaster does the same as Grow, except that it places workers further apart if ratio
// shows that steps are faster then. Of equally fast choices, it takes the one with the
// workers closest together. With a nil ratio it does the same as Grow.
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

// ReleaseFaster does the same as Release, except that it leaves the remaining workers
// further apart if ratio shows that steps are faster then, and if Rule.Within allows it.
// Of equally fast choices, it takes the one with the workers closest together. With a nil
// ratio it does the same as Release.
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

// thinned returns how many of n workers leave each site. Sites with more than most workers
// are reduced first, beginning with the site that has the most workers.
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

// insideAfter reports whether all workers are in one domain of a number of levels after
// some have left.
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

// moved returns the workers at each site after some have come (sign 1) or left (-1).
func moved(sites []Site, by []int, sign int) []int {
	out := make([]int, len(sites))
	for i := range sites {
		out[i] = sites[i].Held + sign*by[i]
	}
	return out
}
