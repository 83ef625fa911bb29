// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sizes

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
)

// TestSet_AgreesWithTheListOfItsNumbers compares every answer with that of the
// plain list.
func TestSet_AgreesWithTheListOfItsNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		set  Set
		want []int // of those up to 20
	}{
		"all":               {Set{}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
		"a step of one":     {Every(3, 1), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
		"steps of three":    {Every(2, 3), []int{2, 5, 8, 11, 14, 17, 20}},
		"steps from below":  {Every(-5, 7), []int{1, 8, 15}},
		"a list":            {List(8, 2, 4, 4), []int{2, 4, 8}},
		"a list from below": {List(-1, 0, 3), []int{3}},
		"nothing":           {List(-1, 0), nil},
		"powers":            {Powers(2, 20), []int{2, 4, 8, 16}},
		"no power":          {Powers(5, 7), []int(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "no power" {
				must.True(t, tc.set.All()) // its maker reports it before
				return
			}
			for n := -2; n <= 20; n++ {
				must.Eq(t, slices.Contains(tc.want, n), tc.set.Contains(n))
				above, most := 0, 0
				for _, w := range tc.want {
					if w > n && above == 0 {
						above = w
					}
					if w <= n {
						most = w
					}
				}
				if got := tc.set.Above(n); got <= 20 {
					must.Eq(t, above, got)
				}
				must.Eq(t, most, tc.set.AtMost(n))
				for high := n; high <= 20; high++ {
					count := 0
					for _, w := range tc.want {
						if n <= w && w <= high {
							count++
						}
					}
					must.Eq(t, count, tc.set.Count(n, high))
					for low := range 20 {
						fit := 0
						for _, w := range tc.want {
							if low <= w && w <= high && w <= n {
								fit = w
							}
						}
						must.Eq(t, fit, tc.set.Fit(n, low, high))
					}
				}
			}
		})
	}
}

func TestSet_CostsNothingHoweverLarge(t *testing.T) {
	must.Len(t, 63, Powers(1, math.MaxInt).Listed())
	s := Every(1, 2)
	must.Eq(t, math.MaxInt, s.AtMost(math.MaxInt))
	must.Eq(t, math.MaxInt-2, s.AtMost(math.MaxInt-1))
	must.Nil(t, s.Listed())
	must.True(t, s.Equal(Every(1, 2)))
	must.False(t, s.Equal(Every(2, 2)))
	must.Eq(t, "1, 3, …", s.String())
	must.Eq(t, "[2 4]", List(2, 4).String())
	must.Eq(t, "all", Set{}.String())
}

func TestSet_JSON(t *testing.T) {
	for name, tc := range map[string]struct {
		set  Set
		want string
	}{
		"all":   {Set{}, `{}`},
		"list":  {List(2, 4), `{"sizes":[2,4]}`},
		"steps": {Every(2, 3), `{"sizes":{"from":2,"step":3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			type holder struct {
				Sizes Set `json:"sizes,omitzero"`
			}
			text, err := json.Marshal(holder{tc.set})
			must.NoError(t, err)
			must.Eq(t, tc.want, string(text))
			var got holder
			must.NoError(t, json.Unmarshal(text, &got))
			must.Eq(t, tc.set, got.Sizes)
		})
	}
}

// Divided by a unit, a set has the quotients of its numbers.
func TestSet_Over(t *testing.T) {
	for _, s := range []Set{List(5, 10, 40), Every(5, 5), Every(10, 15), List(20)} {
		over := s.Over(5)
		for n := range 60 {
			must.Eq(t, s.Contains(5*n), over.Contains(n), must.Sprint(s, " over 5 contains ", n))
		}
	}
	must.Eq(t, List(3), List(3).Over(1))
	must.True(t, Every(5, 5).Over(5).All())
}
