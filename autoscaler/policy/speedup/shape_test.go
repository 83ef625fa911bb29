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

// scaled has the given speed-ups at 2, 4 and 8 workers over one that takes
// the given time, and was measured at sizes only.
func scaled(seconds float64, sizes ...int) Curve {
	speed := map[int]float64{1: 1, 2: 1.5, 4: 2.5, 8: 2.25}
	points := make([]Point, len(sizes))
	for i, n := range sizes {
		points[i] = Point{Size: n, StepTime: seconds / speed[n]}
	}
	return NewCurve(points...)
}

// taught is a shape that saw one job grow from 2 to 8 workers.
func taught() *Shape {
	var s Shape
	s.Learn(scaled(1, 2), 2)
	s.Learn(scaled(1, 2, 4), 4)
	s.Learn(scaled(1, 2, 4, 8), 8)
	return &s
}

func TestShape_CarriesOverToJobsOfAnotherSpeed(t *testing.T) {
	for name, c := range map[string]Curve{
		"not measured":                {},
		"measured at one known size":  scaled(100, 4),
		"measured at two known sizes": scaled(0.01, 2, 8),
	} {
		t.Run(name, func(t *testing.T) {
			got := taught().Extend(c)
			for _, n := range []int{2, 4, 8} {
				want := scaled(1, 2, 4, 8)
				must.InDelta(t, want.Time(2)/want.Time(n), got.Time(2)/got.Time(n), 1e-9)
			}
			must.Eq(t, 8, got.Largest())
			must.Eq(t, c.Points(), got.Points())
			must.Eq(t, c.Measured(), got.Measured())
			must.False(t, got.Known(1))
		})
	}
}

func TestShape_OneMeasurementTeachesNothing(t *testing.T) {
	var s Shape
	s.Learn(scaled(1, 4), 4)
	s.Learn(scaled(3, 8), 8)
	c := s.Extend(Curve{})
	must.Eq(t, 0, c.Largest())
	must.Eq(t, Curve{}, c)
}

func TestShape_FollowsAProgramThatChanges(t *testing.T) {
	s := taught()
	for range 200 { // from now on 8 workers are twice as fast as 4
		s.Learn(NewCurve(Point{Size: 4, StepTime: 1}, Point{Size: 8, StepTime: 0.5}), 8)
	}
	c := s.Extend(scaled(1, 4))
	must.InDelta(t, 2, c.Time(4)/c.Time(8), 0.01)
}

func TestShape_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Shape
		for range rapid.IntRange(0, 6).Draw(t, "jobs") {
			c := drawCurve(t)
			for _, p := range c.Points() {
				s.Learn(c, p.Size)
			}
		}
		c := drawCurve(t)
		got := s.Extend(c)
		for _, p := range c.Points() {
			if got.Time(p.Size) != p.StepTime {
				t.Fatalf("own measurement at %d became %v, was %v", p.Size, got.Time(p.Size), p.StepTime)
			}
		}
		for n := 1; n < 100; n++ {
			if x := got.Time(n); !(x > 0) || math.IsInf(x, 1) {
				t.Fatalf("time at %d is %v", n, x)
			}
		}
		b, err := json.Marshal(s)
		must.NoError(t, err)
		var back Shape
		must.NoError(t, json.Unmarshal(b, &back))
		again := back.Extend(c)
		for n := 1; n < 100; n++ {
			if again.Time(n) != got.Time(n) {
				t.Fatalf("time at %d is %v when read back, was %v", n, again.Time(n), got.Time(n))
			}
		}
	})
}
