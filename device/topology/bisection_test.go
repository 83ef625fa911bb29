// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func TestBisection(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, tc := range map[string]struct {
		machine *Matrix
		set     []int
		want    int
	}{
		// Not 16 pairs of 18 links each: four GPUs have 72 ports.
		"NVSwitch is as wide as four GPUs' ports": {hgxH100(t), all, 4 * 18 * nvlink4},
		"an odd set: the smaller half":            {hgxH100(t), []int{0, 1, 2}, 18 * nvlink4},
		// Between the boards run 2+2+1+1 links, and no cut is weaker.
		"the cube mesh between its boards": {dgx1V(t), all, 6 * nvlink2},
		"a bridge":                         {bridged(t), []int{0, 1}, 4 * nvlink2},
		"two bridges can be cut apart":     {bridged(t), []int{0, 1, 2, 3}, 0},
		"PCIe does not count":              {twoSockets(t), all, 0},
		"one GPU":                          {hgxH100(t), []int{3}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := tc.machine.Bisection(tc.set)
			must.True(t, ok)
			must.Eq(t, tc.want, got)
		})
	}
}

// On machines with direct links only, the weakest cut is the smallest sum over the
// pairs that it separates.
func TestBisectionAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(rt, "gpus")
		gpus := make([]GPU, n)
		var set []int
		for i := range gpus {
			gpus[i].Bus = bus(i)
			set = append(set, i)
		}
		for i := range n {
			for j := i + 1; j < n; j++ {
				for range rapid.IntRange(0, 3).Draw(rt, "links") {
					gpus[i].Ports = append(gpus[i].Ports, Port{Remote: bus(j), MBps: nvlink2})
					gpus[j].Ports = append(gpus[j].Ports, Port{Remote: bus(i), MBps: nvlink2})
				}
			}
		}
		m := New(gpus, nil)
		want := -1
		for _, left := range subsetsOf(set, n/2) {
			sum := 0
			for _, i := range left {
				for _, j := range without(set, left) {
					sum += m.Link(i, j).MBps
				}
			}
			if want < 0 || sum < want {
				want = sum
			}
		}
		got, ok := m.Bisection(set)
		must.True(rt, ok)
		must.Eq(rt, want, got)
	})
}

func TestBisectionOfVeryMany(t *testing.T) {
	set := make([]int, maxBisection+1)
	_, ok := New(make([]GPU, len(set)), nil).Bisection(set)
	must.False(t, ok)
}
