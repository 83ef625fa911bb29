// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func TestIslands(t *testing.T) {
	for name, tc := range map[string]struct {
		machine *Matrix
		islands [][]int
		joined  bool
	}{
		"NVSwitch joins all":            {hgxH100(t), [][]int{{0, 1, 2, 3, 4, 5, 6, 7}}, true},
		"a cube mesh is one island":     {dgx1V(t), [][]int{{0, 1, 2, 3, 4, 5, 6, 7}}, false},
		"a bridge joins two":            {bridged(t), [][]int{{0, 1}, {2, 3}}, false},
		"PCIe alone makes no island":    {twoSockets(t), [][]int{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, false},
		"one GPU":                       {New([]GPU{{}}, nil), [][]int{{0}}, true},
		"no GPU":                        {New(nil, nil), nil, true},
		"MIG instances have no NVLinks": {New([]GPU{{Bus: "a"}, {Bus: "a"}}, nil), [][]int{{0}, {1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.islands, tc.machine.Islands())
			var all []int
			for i := range tc.machine.Len() {
				all = append(all, i)
			}
			must.Eq(t, tc.joined, tc.machine.Joined(all))
		})
	}
}

func TestFabricsAreNotJoinedBySwitches(t *testing.T) {
	port := []Port{{Switch: true, MBps: nvlink4}}
	gpus := []GPU{
		{Bus: "a", Fabric: "rack/1", Ports: port},
		{Bus: "b", Fabric: "rack/2", Ports: port},
		{Bus: "c", Fabric: "rack/1", Ports: port},
	}
	m := New(gpus, nil)
	must.Eq(t, [][]int{{0, 2}, {1}}, m.Islands())

	// A driver that denies NVLink is believed.
	m = New(gpus, func(int, int) Pair { return Pair{NoNVLink: true} })
	must.Eq(t, [][]int{{0}, {1}, {2}}, m.Islands())
}

func TestOnePortDownCountsAtBothEnds(t *testing.T) {
	// GPU b lost one of its two links to a; a has not noticed yet.
	m := New([]GPU{
		{Bus: "a", Ports: []Port{{Remote: "b", MBps: nvlink2}, {Remote: "b", MBps: nvlink2}}},
		{Bus: "b", Ports: []Port{{Remote: "a", MBps: nvlink2}}},
	}, nil)
	must.Eq(t, 1, m.Link(0, 1).NVLinks)
	must.Eq(t, nvlink2, m.Link(1, 0).MBps)
}

func TestMatrixProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := genMachine(rt)
		seen := make([]int, m.Len())
		for id, island := range m.Islands() {
			must.True(rt, slices.IsSorted(island))
			for _, i := range island {
				seen[i]++
				must.Eq(rt, id, m.Island(i))
			}
		}
		for i := range m.Len() {
			must.Eq(rt, 1, seen[i], must.Sprint("every GPU is in one island"))
			for j := range m.Len() {
				must.Eq(rt, m.Link(i, j), m.Link(j, i), must.Sprint("links are symmetric"))
				if m.Link(i, j).NVLinks > 0 {
					must.Eq(rt, m.Island(i), m.Island(j), must.Sprint("an NVLink never leaves its island"))
				}
			}
		}
		for a := 1; a < len(m.Islands()); a++ {
			must.Less(rt, m.Islands()[a][0], m.Islands()[a-1][0], must.Sprint("islands are ordered"))
		}
	})
}

func TestSub(t *testing.T) {
	m := dgx1V(t)
	s := m.Sub([]int{4, 0, 3})
	must.Eq(t, "3;NV2,SYS,NV2", s.Encode())
	must.Eq(t, [][]int{{0, 1, 2}}, s.Islands())
	// Islands are counted among the chosen only: GPU 0, between these two, is out.
	must.Eq(t, [][]int{{0}, {1}}, m.Sub([]int{4, 3}).Islands())
}
