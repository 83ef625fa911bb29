// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func TestBest(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, tc := range map[string]struct {
		machine *Matrix
		k       int
		free    []int
		want    []int
	}{
		"a whole board of the cube mesh": {dgx1V(t), 4, all, []int{0, 1, 2, 3}},
		"the other board when one is broken into": {
			dgx1V(t), 4, []int{0, 1, 3, 4, 5, 6, 7}, []int{4, 5, 6, 7},
		},
		"the double link":                    {dgx1V(t), 2, []int{0, 1, 3}, []int{0, 3}},
		"any on NVSwitch: the lowest":        {hgxH100(t), 3, all, []int{0, 1, 2}},
		"both under one bridge":              {bridged(t), 2, []int{1, 2, 3}, []int{2, 3}},
		"one that leaves the pair to others": {bridged(t), 1, []int{0, 2, 3}, []int{0}},
		"one PCIe switch":                    {twoSockets(t), 2, []int{0, 2, 3, 4, 5}, []int{4, 5}},
		"one socket":                         {twoSockets(t), 4, all, []int{0, 1, 2, 3}},
		"order and repetition mean nothing":  {twoSockets(t), 2, []int{3, 2, 2, 1}, []int{2, 3}},
		"more than there are":                {bridged(t), 3, []int{0, 1}, nil},
		"none":                               {bridged(t), 0, []int{0, 1}, nil},
		"all":                                {bridged(t), 2, []int{3, 0}, []int{0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.want, tc.machine.Best(tc.k, tc.free))
		})
	}
}

// Best must find what trying everything finds.
func TestBestAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := genMachine(rt)
		var free []int
		for i := range m.Len() {
			if rapid.IntRange(0, 4).Draw(rt, "free") > 0 {
				free = append(free, i)
			}
		}
		k := rapid.IntRange(1, 9).Draw(rt, "k")
		var want []int
		score, rest := -1, -1
		for _, set := range subsetsOf(free, k) {
			s, r := m.Score(set), m.Score(without(free, set))
			if s > score || s == score && r > rest ||
				s == score && r == rest && slices.Compare(set, want) < 0 {
				want, score, rest = set, s, r
			}
		}
		must.Eq(rt, want, m.Best(k, free))
	})
}

// A machine with too many instances to try all still gets a valid set.
func TestBestOfVeryMany(t *testing.T) {
	gpus := make([]GPU, 56)
	m := New(gpus, func(i, j int) Pair {
		if i/7 == j/7 {
			return Pair{Path: PathPIX}
		}
		return Pair{Path: PathSYS}
	})
	var free []int
	for i := 3; i < 56; i++ {
		free = append(free, i)
	}
	got := m.Best(7, free)
	must.Len(t, 7, got)
	must.True(t, slices.IsSorted(got))
	for _, i := range got {
		must.Eq(t, got[0]/7, i/7, must.Sprint("seven instances of one GPU are there, so they are chosen"))
	}
}

func TestScoreOrder(t *testing.T) {
	order := []Link{
		{}, {Path: PathSYS}, {Path: PathNODE}, {Path: PathPHB}, {Path: PathPXB}, {Path: PathPIX},
		{NVLinks: 1, Path: PathSYS}, {NVLinks: 2, Path: PathSYS}, {NVLinks: 18, Switched: true},
	}
	for i := 1; i < len(order); i++ {
		must.Greater(t, order[i-1].Score(), order[i].Score())
	}
}
