// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func TestCurve_MeasuredSizesAreExact(t *testing.T) {
	c := CurveOf(4, 2.5, 1.5, 2)
	for n, want := range map[int]float64{1: 4, 2: 2.5, 3: 1.5, 4: 2} {
		must.Eq(t, want, c.Time(n))
		must.Eq(t, 4/want, c.Speedup(n))
		must.True(t, c.Known(n))
	}
	must.False(t, c.Known(5))
	must.Eq(t, 0, c.Speedup(0))
	must.True(t, math.IsInf(c.Time(0), 1))
	must.Eq(t, 4, c.Largest())
}

func TestCurve_Prior(t *testing.T) {
	var none Curve
	must.False(t, none.Measured())
	must.Eq(t, 1, none.Time(1))
	must.InDelta(t, 8/1.35, none.Speedup(8), 1e-12)

	one := NewCurve(Point{Size: 2, StepTime: 3})
	must.True(t, one.Measured())
	must.InDelta(t, 3*2/1.05, one.Time(1), 1e-12)
	must.InDelta(t, (4/1.15)/(2/1.05), one.Time(2)/one.Time(4), 1e-12)
}

func TestCurve_BetweenMeasuredSizesThroughputIsLinear(t *testing.T) {
	c := NewCurve(Point{Size: 2, StepTime: 1}, Point{Size: 6, StepTime: 0.5})
	// 1 step/s at 2 workers, 2 steps/s at 6: 1.5 steps/s half way.
	must.InDelta(t, 1/1.5, c.Time(4), 1e-12)
}

func TestCurve_PastItsPeakStaysFlat(t *testing.T) {
	// Measured yolov3 in the Pollux traces: 4 GPUs are faster than 8.
	c := NewCurve(Point{Size: 4, StepTime: 1}, Point{Size: 8, StepTime: 2})
	must.Eq(t, c.Time(8), c.Time(16))
	must.Eq(t, c.Time(8), c.Time(1000))
}

func TestCurve_IgnoresImpossiblePoints(t *testing.T) {
	c := NewCurve(Point{Size: 0, StepTime: 1}, Point{Size: 1, StepTime: -1},
		Point{Size: 2, StepTime: math.NaN()}, Point{Size: 3, StepTime: math.Inf(1)})
	must.False(t, c.Measured())
}

func TestCurve_LookupsDoNotAllocate(t *testing.T) {
	c := NewCurve(Point{Size: 4, StepTime: 1}, Point{Size: 900, StepTime: 0.1})
	must.Eq(t, 0, testing.AllocsPerRun(100, func() {
		_ = c.Time(3) + c.Speedup(700) + c.Speedup(2000)
		_ = c.Known(4)
	}))
}

// drawCurve draws curves of any shape, peaks and gaps included.
func drawCurve(t *rapid.T) Curve {
	points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Point {
		return Point{
			Size:     rapid.IntRange(1, 70).Draw(t, "size"),
			StepTime: rapid.Float64Range(1e-3, 100).Draw(t, "step"),
			Samples:  rapid.IntRange(0, 100).Draw(t, "samples"),
			Spread:   rapid.Float64Range(0, 10).Draw(t, "spread"),
		}
	}), 0, 8).Draw(t, "points")
	return NewCurve(points...)
}

func TestCurve_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCurve(t)
		n := rapid.IntRange(1, 100_000).Draw(t, "n")
		if !(c.Time(n) > 0) || math.IsInf(c.Time(n), 0) {
			t.Fatalf("Time(%d) = %v", n, c.Time(n))
		}
		if c.Speedup(1) != 1 {
			t.Fatalf("Speedup(1) = %v", c.Speedup(1))
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back Curve
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if back.Time(n) != c.Time(n) {
			t.Fatalf("Time(%d) is %v after a round trip, was %v", n, back.Time(n), c.Time(n))
		}
	})
}
