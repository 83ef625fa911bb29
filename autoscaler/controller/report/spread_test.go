// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

func rackSpread(n int) migrate.Crossing { return migrate.Crossing{Level: "meta.rack", Domains: n} }
func nodeSpread(n int) migrate.Crossing { return migrate.Crossing{Level: "node", Domains: n} }

func point(size int, at migrate.Crossing, step float64) migrate.Point {
	return migrate.Point{Size: size, Crossing: at, StepTime: step}
}

func TestCrossingCosts(t *testing.T) {
	levels, err := topology.ParseLevels([]string{"meta.block", "meta.rack"})
	must.NoError(t, err)
	tree := topology.New(levels, nil)
	blocks := migrate.Crossing{Level: "meta.block", Domains: 2}
	cost := func(size int, at, than migrate.Point, slowdown float64) api.CrossingCost {
		return api.CrossingCost{
			Size: size, Slowdown: slowdown,
			SpreadTime: api.SpreadTime{Crossing: at.Crossing, StepTime: at.StepTime},
			Than:       api.SpreadTime{Crossing: than.Crossing, StepTime: than.StepTime},
		}
	}
	one, node, rack, rack3, block := point(4, migrate.Crossing{}, 2), point(4, nodeSpread(2), 3), point(4, rackSpread(2), 4), point(4, rackSpread(3), 5), point(4, blocks, 1)
	for name, tc := range map[string]struct {
		points []migrate.Point
		want   []api.CrossingCost
	}{
		"nothing":                       {},
		"one place":                     {points: []migrate.Point{rack}},
		"one place of each size":        {points: []migrate.Point{rack, point(8, node.Crossing, 1)}},
		"from closest to furthest":      {points: []migrate.Point{block, rack3, node, rack, one}, want: []api.CrossingCost{cost(4, node, one, 1.5), cost(4, rack, one, 2), cost(4, rack3, one, 2.5), cost(4, block, one, 0.5)}},
		"never all in one place":        {points: []migrate.Point{rack3, rack}, want: []api.CrossingCost{cost(4, rack3, rack, 1.25)}},
		"each size with its own":        {points: []migrate.Point{point(8, rackSpread(2), 6), rack, point(8, nodeSpread(2), 3), one}, want: []api.CrossingCost{cost(4, rack, one, 2), cost(8, point(8, rackSpread(2), 6), point(8, nodeSpread(2), 3), 2)}},
		"a level that is there no more": {points: []migrate.Point{one, point(4, migrate.Crossing{Level: "meta.row", Domains: 2}, 9)}},
		"what cannot be":                {points: []migrate.Point{one, point(4, rackSpread(2), 1e9), point(4, rackSpread(3), 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.want, crossingCosts(tree, &migrate.Sensitivity{Points: tc.points}))
		})
	}
}
