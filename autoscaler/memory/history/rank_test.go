// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"testing"

	"github.com/shoenig/test/must"
)

// A rank is known only if it is the only one in its allocation, because each process
// chooses which of several GPUs it uses.
func TestProgress_RankOf(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks []Rank
		want  map[string]int
	}{
		"no ring":           {nil, map[string]int{}},
		"one each":          {[]Rank{{Rank: 0, AllocID: "a"}, {Rank: 1, AllocID: "b"}}, map[string]int{"a": 0, "b": 1}},
		"two of one":        {[]Rank{{Rank: 0, AllocID: "a"}, {Rank: 1, AllocID: "b"}, {Rank: 2, AllocID: "a"}}, map[string]int{"b": 1}},
		"without a cluster": {[]Rank{{Rank: 0, AllocID: ""}}, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.want, (&Progress{Ranks: tc.ranks}).RankOf())
		})
	}
}
