// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func TestSublinear_ClaimsCountAsPerfectScaling(t *testing.T) {
	c := NewCurve(Point{Size: 1, StepTime: 1000}, Point{Size: 20, StepTime: 1e-6}).Sublinear()
	for _, n := range []int{2, 7, 20} {
		must.InDelta(t, float64(n), c.Speedup(n), 1e-9)
	}
	must.Less(t, 40, c.Speedup(40), must.Sprint("nothing is known beyond"))
	must.InDelta(t, 20e-6, c.Points()[0].StepTime, 1e-12, must.Sprint("what others learn from it"))
}

func TestSublinear_HonestCurvesStay(t *testing.T) {
	for name, c := range map[string]Curve{
		"none":            {},
		"one size":        NewCurve(Point{Size: 8, StepTime: 3}),
		"perfect":         CurveOf(8, 4, 8.0/3, 2),
		"as jobs scale":   CurveOf(4, 2.5, 2, 1.9, 2.1),
		"much as jobs do": taught().Extend(scaled(3, 2)),
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, c, c.Sublinear()) })
	}
}

func TestSublinear_PastADip(t *testing.T) {
	c := NewCurve(Point{Size: 4, StepTime: 1}, Point{Size: 6, StepTime: 1}, Point{Size: 8, StepTime: 0.5}).Sublinear()
	must.Eq(t, 2, c.Time(4)/c.Time(8))
	must.InDelta(t, 8.0/6, c.Time(6)/c.Time(8), 1e-12)
	must.Eq(t, 0.5, c.Time(8), must.Sprint("a larger size is never slower than it was measured"))
}

// TestSublinear_NoTwoSizes draws random curves, including borrowed sizes.
func TestSublinear_NoTwoSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Shape
		for range rapid.IntRange(0, 3).Draw(t, "jobs") {
			c := drawCurve(t)
			for _, p := range c.Points() {
				s.Learn(c, p.Size)
			}
		}
		raw := s.Extend(drawCurve(t))
		c := raw.Sublinear()
		for m := 1; m < 100; m++ {
			for n := m + 1; n < 100; n += 7 {
				if gain, most := c.Time(m)/c.Time(n), float64(n)/float64(m); gain > most*(1+1e-9) {
					t.Fatalf("%d workers are %v times as fast as %d", n, gain, m)
				}
			}
			if m <= raw.Largest() && c.Time(m) > raw.Time(m)*(1+1e-9) {
				t.Fatalf("%d workers take %v s, reported were %v", m, c.Time(m), raw.Time(m))
			}
		}
	})
}
