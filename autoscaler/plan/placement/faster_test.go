// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package placement

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// perSite returns the ratio of a job whose steps take longer by a part for each of its
// sites, or shorter if the part is negative.
func perSite(by float64) Ratio {
	time := func(counts []int) float64 {
		t := 1.0
		for _, n := range counts {
			if n > 0 {
				t *= 1 + by
			}
		}
		return t
	}
	return func(counts, elsewhere []int) float64 { return time(counts) / time(elsewhere) }
}

func insideAt(sites []Site, counts []int, levels int) bool {
	at := slices.Clone(sites)
	for i, n := range counts {
		at[i].Held = n
	}
	return Inside(at, levels)
}

func TestFaster(t *testing.T) {
	node := func(i, held, room int) Site { return Site{Path: []int{i}, Held: held, Room: room} }
	for name, tc := range map[string]struct {
		sites []Site
		n     int // comes, or leaves where it is negative
		by    float64
		want  []int
	}{
		"starts together":                    {[]Site{node(0, 0, 4), node(1, 0, 4)}, 2, 0.1, []int{2, 0}},
		"starts together: nothing known":     {[]Site{node(0, 0, 4), node(1, 0, 4)}, 2, 0, []int{2, 0}},
		"starts together: all but the same":  {[]Site{node(0, 0, 4), node(1, 0, 4)}, 2, -0.01, []int{2, 0}},
		"starts apart":                       {[]Site{node(0, 0, 4), node(1, 0, 4)}, 2, -0.1, []int{1, 1}},
		"starts apart as far as there is":    {[]Site{node(0, 0, 4), node(1, 0, 4)}, 4, -0.1, []int{2, 2}},
		"grows by one together":              {[]Site{node(0, 1, 1), node(1, 0, 4)}, 1, 0.1, []int{1, 0}},
		"grows by one apart":                 {[]Site{node(0, 1, 1), node(1, 0, 4)}, 1, -0.1, []int{0, 1}},
		"no fewer find room":                 {[]Site{node(0, 0, 3), node(1, 0, 0)}, 3, -0.1, []int{3, 0}},
		"leaves together":                    {[]Site{node(0, 2, 0), node(1, 2, 0)}, -2, 0.1, []int{2, 0}},
		"leaves apart":                       {[]Site{node(0, 2, 0), node(1, 2, 0)}, -2, -0.1, []int{1, 1}},
		"leaves apart, and some of the rest": {[]Site{node(0, 2, 0), node(1, 1, 0), node(2, 1, 0)}, -2, -0.1, []int{2, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.n < 0 {
				must.Eq(t, tc.want, ReleaseFaster(tc.sites, -tc.n, Rule{}, perSite(tc.by)))
				return
			}
			more, placed := GrowFaster(tc.sites, tc.n, Rule{}, perSite(tc.by))
			must.Eq(t, tc.want, more)
			must.Eq(t, tc.n, placed)
		})
	}
}

// The job is about equally fast everywhere, except at the place that it would get without a
// ratio.
func TestFaster_NoFurtherThanNeeded(t *testing.T) {
	anywhereElse := func(counts, _ []int) float64 {
		at := 0
		for _, n := range counts {
			at += min(n, 1)
		}
		return 0.95 - 0.0001*float64(at) // noise
	}
	var sites []Site
	for i := range 4 {
		sites = append(sites, Site{Path: []int{i}, Room: 8})
	}
	more, _ := GrowFaster(sites, 8, Rule{}, anywhereElse)
	must.Eq(t, []int{4, 4, 0, 0}, more)
	for i := range sites {
		sites[i] = Site{Path: []int{i}, Held: []int{8, 4, 0, 0}[i]}
	}
	must.Eq(t, []int{4, 0, 0, 0}, ReleaseFaster(sites, 4, Rule{}, anywhereElse))
}

// TestProperty_FasterIsNotLess compares choices with and without a ratio. The same number
// of workers is placed or removed, and only where allowed. If the ratio is always 1, the
// sites are the same.
func TestProperty_FasterIsNotLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sites := drawSites(t)
		n := rapid.IntRange(0, 10).Draw(t, "n")
		rule := Rule{Within: rapid.IntRange(0, 2).Draw(t, "within")}
		by := rapid.SampledFrom([]float64{-0.1, 0, 0.1}).Draw(t, "by")
		closest, most := Grow(sites, n, rule)
		more, placed := GrowFaster(sites, n, rule, perSite(by))
		must.Eq(t, most, placed)
		sum := 0
		for i, k := range more {
			if k < 0 || k > sites[i].Room {
				t.Fatalf("%d workers where %d find room", k, sites[i].Room)
			}
			sum += k
		}
		must.Eq(t, placed, sum)
		if rule.Within > 0 && placed > 0 && !Inside(after(sites, more), rule.Within) {
			t.Fatalf("%v crosses a level that must not be crossed", more)
		}
		apart, sum := ReleaseFaster(sites, n, rule, perSite(by)), 0
		if closest := moved(sites, Release(sites, n), -1); rule.Within > 0 && insideAt(sites, closest, rule.Within) && !insideAt(sites, moved(sites, apart, -1), rule.Within) {
			t.Fatalf("%v are left across a level that must not be crossed", moved(sites, apart, -1))
		}
		for i, k := range apart {
			if k < 0 || k > sites[i].Held-sites[i].Fixed {
				t.Fatalf("%d of %d leave, and %d must stay", k, sites[i].Held, sites[i].Fixed)
			}
			sum += k
		}
		must.Eq(t, min(n, held(sites)-fixed(sites)), sum)
		if by == 0 {
			must.Eq(t, closest, more)
			must.Eq(t, Release(sites, n), apart)
		}
	})
}
