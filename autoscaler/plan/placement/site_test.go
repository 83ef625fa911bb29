// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import (
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// TestGrow draws clusters as rows of sites: path, workers of the job, and room.
func TestGrow(t *testing.T) {
	block := func(b, r, held, room int) Site { return Site{Path: []int{b, r}, Held: held, Room: room} }
	rack := func(r, held, room int) Site { return Site{Path: []int{r}, Held: held, Room: room} }
	anywhere := func(held, room int) Site { return Site{Held: held, Room: room} }
	for name, tc := range map[string]struct {
		sites  []Site
		n      int
		rule   Rule
		more   []int
		placed int
	}{
		"the smallest rack that holds it": {[]Site{rack(0, 0, 8), rack(1, 0, 4), rack(2, 0, 6)}, 4, Rule{}, []int{0, 4, 0}, 4},
		"no rack holds it: the fewest":    {[]Site{rack(0, 0, 3), rack(1, 0, 8), rack(2, 0, 5)}, 10, Rule{}, []int{2, 8, 0}, 10},
		"and the rest where it fits best": {[]Site{rack(0, 0, 5), rack(1, 0, 8), rack(2, 0, 4)}, 12, Rule{}, []int{0, 8, 4}, 12},
		"as many as there is room for":    {[]Site{rack(0, 0, 3), rack(1, 0, 1)}, 10, Rule{}, []int{3, 1}, 4},
		"nothing":                         {[]Site{rack(0, 0, 3)}, 0, Rule{}, []int{0}, 0},
		"no room":                         {[]Site{rack(0, 2, 0)}, 1, Rule{}, []int{0}, 0},
		"grows where it is":               {[]Site{rack(0, 0, 8), rack(1, 2, 4)}, 4, Rule{}, []int{0, 4}, 4},
		"grows where most of it is":       {[]Site{rack(0, 1, 8), rack(1, 3, 4)}, 4, Rule{}, []int{0, 4}, 4},
		"spills over":                     {[]Site{rack(0, 0, 9), rack(1, 3, 2), rack(2, 0, 3)}, 4, Rule{}, []int{0, 2, 2}, 4},
		"in the block it is in":           {[]Site{block(0, 0, 4, 0), block(1, 1, 0, 2), block(0, 2, 0, 2)}, 2, Rule{}, []int{0, 0, 2}, 2},
		"of equal racks the one in the smaller block": {
			[]Site{block(0, 0, 0, 4), block(0, 1, 0, 4), block(1, 2, 0, 4)}, 4, Rule{}, []int{0, 0, 4}, 4},
		"a block that holds it, not the largest": {
			[]Site{block(0, 0, 0, 4), block(0, 1, 0, 4), block(1, 2, 0, 4), block(1, 3, 0, 3)}, 7, Rule{}, []int{0, 0, 4, 3}, 7},
		"at the level that matters": { // the node of 5 would do, but its rack stays whole
			[]Site{block(0, 0, 0, 5), block(0, 1, 0, 5), block(1, 2, 0, 3), block(1, 3, 0, 3)}, 5, Rule{Levels: 1}, []int{0, 0, 3, 2}, 5},
		"the smallest, not the one that the job could fill": {
			[]Site{{Path: []int{0}, Room: 4, Free: 16}, {Path: []int{1}, Room: 4, Free: 5}}, 4, Rule{}, []int{0, 4}, 4},
		"never across: enough":             {[]Site{rack(0, 0, 4), rack(1, 0, 8)}, 6, Rule{Within: 1}, []int{0, 6}, 6},
		"never across: too few":            {[]Site{rack(0, 0, 4), rack(1, 0, 8)}, 10, Rule{Within: 1}, []int{0, 8}, 8},
		"never across: where it is":        {[]Site{rack(0, 2, 1), rack(1, 0, 8)}, 3, Rule{Within: 1}, []int{1, 0}, 1},
		"never across: is already":         {[]Site{rack(0, 2, 1), rack(1, 2, 8)}, 3, Rule{Within: 1}, []int{0, 0}, 0},
		"never across: a block":            {[]Site{block(0, 0, 0, 2), block(0, 1, 0, 2), block(1, 2, 0, 3)}, 4, Rule{Within: 1}, []int{2, 2, 0}, 4},
		"never across: not to a site that": {[]Site{rack(0, 0, 2), anywhere(0, 9)}, 4, Rule{Within: 1}, []int{2, 0}, 2},
		"sites that span racks come last":  {[]Site{anywhere(0, 9), rack(0, 0, 4)}, 4, Rule{}, []int{0, 4}, 4},
		"sites that span racks":            {[]Site{anywhere(0, 3), anywhere(0, 9)}, 4, Rule{}, []int{0, 4}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			more, placed := Grow(tc.sites, tc.n, tc.rule)
			must.Eq(t, tc.more, more)
			must.Eq(t, tc.placed, placed)
		})
	}
}

func TestRelease(t *testing.T) {
	block := func(b, r, held int) Site { return Site{Path: []int{b, r}, Held: held} }
	rack := func(r, held int) Site { return Site{Path: []int{r}, Held: held} }
	for name, tc := range map[string]struct {
		sites []Site
		n     int
		less  []int
	}{
		"the smaller part":        {[]Site{rack(0, 4), rack(1, 2)}, 2, []int{0, 2}},
		"and some of the next":    {[]Site{rack(0, 4), rack(1, 2)}, 3, []int{1, 2}},
		"a rack as a whole":       {[]Site{rack(0, 1), rack(1, 3), rack(2, 4)}, 3, []int{0, 3, 0}},
		"two racks as wholes":     {[]Site{rack(0, 1), rack(1, 2), rack(2, 4)}, 3, []int{1, 2, 0}},
		"two racks, not the one":  {[]Site{rack(0, 3), rack(1, 1), rack(2, 1)}, 3, []int{1, 1, 1}},
		"the block with less":     {[]Site{block(0, 0, 4), block(0, 1, 1), block(1, 2, 3)}, 3, []int{0, 0, 3}},
		"inside the block":        {[]Site{block(0, 0, 4), block(0, 1, 1), block(1, 2, 3)}, 4, []int{0, 1, 3}},
		"what must stay":          {[]Site{{Path: []int{0}, Held: 2, Fixed: 1}, rack(1, 4)}, 3, []int{1, 2}},
		"no more than may":        {[]Site{{Path: []int{0}, Held: 2, Fixed: 1}}, 3, []int{1}},
		"all":                     {[]Site{rack(0, 1), rack(1, 3)}, 4, []int{1, 3}},
		"of sites that span many": {[]Site{{Held: 2}, {Held: 1}}, 1, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, tc.less, Release(tc.sites, tc.n)) })
	}
}

func TestInside(t *testing.T) {
	must.True(t, Inside([]Site{{Path: []int{0, 1}, Held: 1}, {Path: []int{0, 2}, Held: 1}}, 1))
	must.False(t, Inside([]Site{{Path: []int{0, 1}, Held: 1}, {Path: []int{0, 2}, Held: 1}}, 2))
	must.True(t, Inside([]Site{{Path: []int{0, 1}, Held: 1}, {Path: []int{0, 2}}}, 2))
	must.False(t, Inside([]Site{{Held: 1}, {Path: []int{0, 2}}}, 1))
}

func drawSites(t *rapid.T) []Site {
	var sites []Site
	for i := range rapid.IntRange(1, 6).Draw(t, "sites") {
		b := rapid.IntRange(0, 1).Draw(t, "block")
		s := Site{Path: []int{b, 10*b + rapid.IntRange(0, 2).Draw(t, "rack"), 100 + i}}
		s.Path = s.Path[:rapid.SampledFrom([]int{3, 3, 3, 2, 0}).Draw(t, "levels")]
		s.Held, s.Room = rapid.IntRange(0, 4).Draw(t, "held"), rapid.IntRange(0, 5).Draw(t, "room")
		s.Fixed = min(s.Held, rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "fixed"))
		sites = append(sites, s)
	}
	return sites
}

// domains returns how many domains of a level the job is in.
func domains(sites []Site, l int) int {
	seen := map[int]bool{}
	for i := range sites {
		switch {
		case sites[i].Held == 0:
		case l < len(sites[i].Path):
			seen[sites[i].Path[l]] = true
		default:
			seen[-1-i] = true // it spans several
		}
	}
	return len(seen)
}

// after returns the sites with counts added.
func after(sites []Site, counts []int) []Site {
	out := append([]Site{}, sites...)
	for i, n := range counts {
		out[i].Held += n
	}
	return out
}

// splits yields all ways to distribute n over sites within their limits.
func splits(sites []Site, n int, limit func(*Site) int, yield func([]int)) {
	counts := make([]int, len(sites))
	var next func(i, left int)
	next = func(i, left int) {
		if i == len(sites) {
			if left == 0 {
				yield(counts)
			}
			return
		}
		for k := range min(left, limit(&sites[i])) + 1 {
			counts[i] = k
			next(i+1, left-k)
		}
		counts[i] = 0
	}
	next(0, n)
}

// TestProperty_GrowCrossesAsLittleAsItCan checks that no other placement of the workers
// uses fewer domains of the outermost level that has to be crossed.
func TestProperty_GrowCrossesAsLittleAsItCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sites := drawSites(t)
		n := rapid.IntRange(0, 8).Draw(t, "more")
		rule := Rule{Within: rapid.IntRange(0, 2).Draw(t, "within")}
		more, placed := Grow(sites, n, rule)
		sum := 0
		for i, k := range more {
			if k < 0 || k > sites[i].Room {
				t.Fatalf("%d workers where %d find room", k, sites[i].Room)
			}
			sum += k
		}
		if sum != placed || placed > n {
			t.Fatalf("%v is not %d of %d", more, placed, n)
		}
		got := after(sites, more)
		if rule.Within > 0 && placed > 0 && !Inside(got, rule.Within) {
			t.Fatalf("%v crosses a level that must not be crossed", more)
		}
		whole := func(s *Site) int { return s.Room }
		if rule.Within > 0 {
			splits(sites, placed+1, whole, func(counts []int) {
				if placed < n && Inside(after(sites, counts), rule.Within) {
					t.Fatalf("%v places %d, and %v would place one more", more, placed, counts)
				}
			})
			return
		}
		room := 0
		for i := range sites {
			room += sites[i].Room
		}
		must.Eq(t, min(n, room), placed)
		splits(sites, placed, whole, func(counts []int) {
			other := after(sites, counts)
			if domains(other, 0) < domains(got, 0) || domains(got, 0) == 1 && domains(other, 0) == 1 && domains(other, 1) == 1 && domains(got, 1) > 1 {
				t.Fatalf("%v is further apart than %v", more, counts)
			}
		})
	})
}

// TestProperty_ReleaseLeavesFewDomains checks the same for the workers that remain.
func TestProperty_ReleaseLeavesFewDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sites := drawSites(t)
		n := rapid.IntRange(0, 12).Draw(t, "less")
		less := Release(sites, n)
		sum, most := 0, 0
		for i, k := range less {
			if k < 0 || k > sites[i].Held-sites[i].Fixed {
				t.Fatalf("%d of %d leave, and %d must stay", k, sites[i].Held, sites[i].Fixed)
			}
			less[i] = -k
			sum += k
			most += sites[i].Held - sites[i].Fixed
		}
		must.Eq(t, min(n, most), sum)
		got := after(sites, less)
		splits(sites, sum, func(s *Site) int { return s.Held - s.Fixed }, func(counts []int) {
			other := make([]int, len(counts))
			for i, k := range counts {
				other[i] = -k
			}
			if fixed(sites) == 0 && domains(after(sites, other), 0) < domains(got, 0) {
				t.Fatalf("%v leaves more domains than %v", less, counts)
			}
		})
	})
}

func fixed(sites []Site) (n int) {
	for i := range sites {
		n += sites[i].Fixed
	}
	return n
}
