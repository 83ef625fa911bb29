// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
)

// TestConvert_Lengths sends the known lengths of similar jobs. Older policies do not know the
// field, and a job without it has a zero Sample.
func TestConvert_Lengths(t *testing.T) {
	known := length.NewSample(length.Namespace, []float64{100, 400, 900, 1600})
	s := &policy.Snapshot{Jobs: []policy.Job{{ID: "a", Alike: known}, {ID: "b"}}}
	wire := toWire(s)
	must.Eq(t, "namespace", wire.Jobs[0].GetAlike().GetOrigin())
	must.Nil(t, wire.Jobs[1].GetAlike())

	back := fromWire(wire)
	must.Eq(t, known, back.Jobs[0].Alike)
	must.Eq(t, length.Sample{}, back.Jobs[1].Alike)
	left, trust := known.Left(50)
	sameLeft, sameTrust := back.Jobs[0].Alike.Left(50)
	must.Eq(t, []float64{left, trust}, []float64{sameLeft, sameTrust}, must.Sprint("a policy in Go predicts the same"))
}

// TestSizes_OnTheWire: a policy gets a list of sizes if it is short, and never a list with
// as many numbers as a job may have workers.
func TestSizes_OnTheWire(t *testing.T) {
	for name, tc := range map[string]struct {
		set        sizes.Set
		low, high  int
		list, step int
	}{
		"all":         {sizes.Set{}, 1, 100_000, 0, 0},
		"a list":      {sizes.List(2, 4, 8), 2, 8, 3, 0},
		"few steps":   {sizes.Every(2, 3), 2, 8, 3, 0},
		"many steps":  {sizes.Every(2, 3), 2, 100_000, 1, 3},
		"powers":      {sizes.Powers(1, 100_000), 1, 65536, 17, 0},
		"out of list": {sizes.Every(5, 3), 2, 4, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &policy.Snapshot{Jobs: []policy.Job{{ID: "a", Min: tc.low, Max: tc.high, Sizes: tc.set}}}
			w := toWire(s)
			must.Len(t, tc.list, w.GetJobs()[0].GetSizes())
			must.Eq(t, int64(tc.step), w.GetJobs()[0].GetStep())
			if tc.list == 0 {
				return
			}
			got := fromWire(w).Jobs[0].Sizes
			for n := tc.low; n <= min(tc.high, 1000); n++ {
				must.Eq(t, tc.set.Contains(n), got.Contains(n))
			}
		})
	}
}
