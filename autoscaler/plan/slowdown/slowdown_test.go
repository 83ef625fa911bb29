// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package slowdown

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// twoRacks returns two racks of two nodes of four slots, and a job with a group in each
// rack and one that spans both.
func twoRacks(t *testing.T, counts ...int) (*topology.Tree, []planner.Node, *planner.Job) {
	levels, err := topology.ParseLevels([]string{"meta.rack"})
	must.NoError(t, err)
	var nodes []planner.Node
	var placed []topology.Node
	for i, name := range []string{"n1", "n2", "n3", "n4"} {
		nodes = append(nodes, planner.Node{Name: name, Pool: "gpu", Bins: []planner.Bin{{Slots: 4}}})
		placed = append(placed, topology.Node{Values: []string{[]string{"r1", "r1", "r2", "r2"}[i], name}, Bins: []topology.Bin{{}}})
	}
	j := planner.Job{Key: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", Locality: &planner.Locality{}}
	for g, n := range counts {
		group := planner.Group{Count: n, Need: placement.Need{Slots: 1}, Class: &planner.Class{}}
		for _, node := range [][]int{{0, 1}, {2, 3}, {0, 1, 2, 3}}[g] {
			group.Class.Places = append(group.Class.Places, placement.Place{Node: node})
		}
		if g < 2 {
			group.Path = []int{g}
		}
		for w := range n {
			group.Live = append(group.Live, planner.Worker{Place: group.Class.Places[w%2]})
		}
		j.Groups = append(j.Groups, group)
	}
	return topology.New(levels, placed), nodes, &j
}

func rackSpread(n int) migrate.Crossing { return migrate.Crossing{Level: "meta.rack", Domains: n} }
func nodeSpread(n int) migrate.Crossing { return migrate.Crossing{Level: "node", Domains: n} }

func point(size int, at migrate.Crossing, step float64) migrate.Point {
	return migrate.Point{Size: size, Crossing: at, StepTime: step}
}

// TestModel_FromNow checks the slowdowns of moves for a job with two workers in each rack.
func TestModel_FromNow(t *testing.T) {
	for name, tc := range map[string]struct {
		own, alike []migrate.Point
		lost       bool // where the workers are is not known
		counts     []int
		want       float64
	}{
		"where it is":      {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, nodeSpread(2), 1)}, counts: []int{2, 2, 0}, want: 1},
		"nothing is known": {counts: []int{4, 0, 0}, want: 1},
		"to one rack, where a node has been enough":   {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, migrate.Crossing{}, 1)}, counts: []int{4, 0, 0}, want: 0.5},
		"to one rack, where Nomad may cross nodes":    {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, nodeSpread(2), 1.5), point(4, migrate.Crossing{}, 1)}, counts: []int{0, 4, 0}, want: 0.75},
		"between racks anyway":                        {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, nodeSpread(2), 1)}, counts: []int{3, 1, 0}, want: 1},
		"a group that may be anywhere":                {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, nodeSpread(2), 1)}, counts: []int{0, 0, 4}, want: 1},
		"a job that does not care":                    {own: []migrate.Point{point(4, rackSpread(2), 1.01), point(4, nodeSpread(2), 1)}, counts: []int{4, 0, 0}, want: 1 / 1.01},
		"others of the kind were measured":            {alike: []migrate.Point{point(4, rackSpread(2), 1.6), point(4, migrate.Crossing{}, 1)}, counts: []int{4, 0, 0}, want: 1 / 1.6},
		"its own times go before others'":             {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, migrate.Crossing{}, 1)}, alike: []migrate.Point{point(4, rackSpread(2), 9), point(4, migrate.Crossing{}, 1)}, counts: []int{4, 0, 0}, want: 0.5},
		"no node holds all":                           {own: []migrate.Point{point(8, rackSpread(2), 2), point(8, nodeSpread(2), 1.6), point(8, migrate.Crossing{}, 1)}, counts: []int{8, 0, 0}, want: 0.8},
		"where the workers are is not known":          {own: []migrate.Point{point(4, rackSpread(2), 2), point(4, migrate.Crossing{}, 1)}, lost: true, counts: []int{4, 0, 0}, want: 1},
		"no training is slower by so much":            {own: []migrate.Point{point(4, rackSpread(2), 1e9), point(4, migrate.Crossing{}, 1)}, counts: []int{4, 0, 0}, want: 1},
		"what was saved wrongly is passed over":       {own: []migrate.Point{point(4, rackSpread(2), 0), point(4, migrate.Crossing{}, 0)}, counts: []int{4, 0, 0}, want: 1},
		"others help where its own do not reach that": {own: []migrate.Point{point(4, rackSpread(2), 2)}, alike: []migrate.Point{point(4, rackSpread(2), 3), point(4, migrate.Crossing{}, 2)}, counts: []int{4, 0, 0}, want: 2. / 3},
	} {
		t.Run(name, func(t *testing.T) {
			tree, nodes, j := twoRacks(t, 2, 2, 0)
			at := new(rackSpread(2))
			if tc.lost {
				at = nil
			}
			m := New(j, tree, at, &migrate.Sensitivity{Points: tc.own}, &migrate.Sensitivity{Points: tc.alike}, NewRooms(nodes))
			must.InDelta(t, tc.want, m.FromNow(tc.counts), 1e-9)
		})
	}
}

// The job may start in one rack or in both.
func TestModel_Between(t *testing.T) {
	one, both := []int{2, 0}, []int{1, 1}
	faster := []migrate.Point{point(2, migrate.Crossing{}, 1), point(2, rackSpread(2), 0.8)}
	for name, tc := range map[string]struct {
		own, alike        []migrate.Point
		counts, elsewhere []int
		want              float64
	}{
		"nothing is known":                     {counts: both, elsewhere: one, want: 1},
		"the same":                             {own: faster, counts: both, elsewhere: both, want: 1},
		"it is faster apart":                   {own: faster, counts: both, elsewhere: one, want: 0.8},
		"others of its kind are":               {alike: faster, counts: both, elsewhere: one, want: 0.8},
		"and slower together":                  {own: faster, counts: one, elsewhere: both, want: 1.25},
		"one node would have been faster yet":  {own: append(faster, point(2, nodeSpread(2), 0.5)), counts: both, elsewhere: one, want: 1.6},
		"another job's times of another size":  {alike: []migrate.Point{point(4, migrate.Crossing{}, 1), point(4, rackSpread(2), 0.7)}, counts: both, elsewhere: one, want: 0.808},
		"no training is faster by so much":     {own: []migrate.Point{point(2, migrate.Crossing{}, 1), point(2, rackSpread(2), 0.001)}, counts: both, elsewhere: one, want: 1},
		"what was measured at this size first": {own: []migrate.Point{point(4, migrate.Crossing{}, 1), point(4, rackSpread(2), 2)}, alike: faster, counts: both, elsewhere: one, want: 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			tree, nodes, j := twoRacks(t, 0, 0)
			m := New(j, tree, nil, &migrate.Sensitivity{Points: tc.own}, &migrate.Sensitivity{Points: tc.alike}, NewRooms(nodes))
			must.InDelta(t, tc.want, m.Between(tc.counts, tc.elsewhere), 1e-3)
		})
	}
}

// The job has a group on each node, so the placement of its workers inside the racks is
// known as well. Times on four nodes do not count for two nodes.
func TestModel_GroupPerNode(t *testing.T) {
	racks := func(parts, most int) migrate.Crossing {
		return migrate.Crossing{Level: "meta.rack", Domains: 2, Parts: parts, Most: most}
	}
	known := []migrate.Point{point(4, migrate.Crossing{}, 1), point(4, racks(2, 2), 1.5), point(4, racks(2, 3), 1.3), point(4, racks(4, 1), 2)}
	for name, tc := range map[string]struct {
		points []migrate.Point
		counts []int // on n1 and n2 of one rack, n3 and n4 of the other
		want   float64
	}{
		"two nodes":    {known, []int{2, 0, 2, 0}, 1.5},
		"and unevenly": {known, []int{0, 1, 0, 3}, 1.3},
		"four nodes":   {known, []int{1, 1, 1, 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			tree, nodes, j := twoRacks(t, 0)
			j.Groups = nil
			for n := range 4 {
				class := &planner.Class{Places: []placement.Place{{Node: n}}}
				j.Groups = append(j.Groups, planner.Group{Need: placement.Need{Slots: 1}, Class: class, Path: []int{n / 2, n}})
			}
			m := New(j, tree, nil, &migrate.Sensitivity{Points: tc.points}, &migrate.Sensitivity{}, NewRooms(nodes))
			for range 2 { // what the first leaves behind does not change the second
				m.ratios = nil
				must.InDelta(t, tc.want, m.Between(tc.counts, []int{4, 0, 0, 0}), 1e-9)
			}
		})
	}
}

// Nomad may place the workers of a group in several ways. The slowest one counts, so that a
// job does not move between racks for a placement that it may not get.
func TestModel_InsideAGroup(t *testing.T) {
	of8 := []migrate.Point{point(8, nodeSpread(2), 1), point(8, nodeSpread(4), 1.5), point(8, rackSpread(2), 2)}
	for name, tc := range map[string]struct {
		nodes  int // of a rack
		slots  int // of a node
		own    []migrate.Point
		at     migrate.Crossing
		counts []int
		want   float64
	}{
		"to another rack, where it may be on as many nodes": {4, 4, of8, nodeSpread(4), []int{0, 8}, 1},
		"to another rack, from fewer nodes than it may be":  {4, 4, of8, nodeSpread(2), []int{0, 8}, 1.5},
		"to one rack, on four nodes at worst":               {4, 4, of8, rackSpread(2), []int{8, 0}, 0.75},
		"to one rack of two nodes":                          {2, 4, of8, rackSpread(2), []int{8, 0}, 0.5},
		"to one rack of one node":                           {1, 8, append(of8, point(8, migrate.Crossing{}, 0.8)), rackSpread(2), []int{8, 0}, 0.4},
	} {
		t.Run(name, func(t *testing.T) {
			levels, err := topology.ParseLevels([]string{"meta.rack"})
			must.NoError(t, err)
			j := &planner.Job{}
			var nodes []planner.Node
			var placed []topology.Node
			for rack := range 2 {
				class := &planner.Class{}
				for range tc.nodes {
					n := strconv.Itoa(len(placed))
					class.Places = append(class.Places, placement.Place{Node: len(nodes)})
					nodes = append(nodes, planner.Node{Bins: []planner.Bin{{Slots: tc.slots}}})
					placed = append(placed, topology.Node{Values: []string{fmt.Sprint("r", rack), n}, Bins: []topology.Bin{{}}})
				}
				j.Groups = append(j.Groups, planner.Group{Need: placement.Need{Slots: 1}, Class: class, Path: []int{rack}})
			}
			m := New(j, topology.New(levels, placed), &tc.at, &migrate.Sensitivity{Points: tc.own}, &migrate.Sensitivity{}, NewRooms(nodes))
			must.InDelta(t, tc.want, m.FromNow(tc.counts), 1e-9)
		})
	}
}
