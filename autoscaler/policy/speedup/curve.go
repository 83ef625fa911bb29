// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"encoding/json"
	"math"
	"slices"
	"sort"
)

// priorSerial is the part of a step assumed not to get faster with more workers
// (Amdahl) while nothing is measured: n workers are taken to do
// n/(1+priorSerial·(n-1)) times the steps of one. A lower value costs GPUs on jobs
// that do not scale; a higher one keeps jobs from ever being measured at larger
// sizes. docs/research.md describes how it was chosen.
const priorSerial = 0.05

// denseLimit bounds the lookup table of a curve; larger sizes are computed.
const denseLimit = 256

// Point is the measured time of one global step at one size.
type Point struct {
	Size     int     `json:"size"`              // workers
	StepTime float64 `json:"step_time"`         // mean, seconds
	Samples  int     `json:"samples,omitempty"` // 0 counts as 1
	Spread   float64 `json:"spread,omitempty"`  // standard deviation of one sample, seconds
}

// Curve holds a job's measured step times by size, and estimates the others. It
// assumes no particular shape: measured curves have steps and peaks, so policies
// must expect that more workers may be slower. The zero Curve has no measurements,
// and estimates all sizes by the prior: the speed-up assumed before anything is
// measured. A Curve is immutable and may be shared.
//
// Unmeasured sizes are estimated by their throughput v(n) = 1/t(n):
//
//   - between two measured sizes, v lies on the straight line between them;
//   - below the smallest, v follows the prior p(n);
//   - above the largest, L, v grows as p(n)^b. The exponent, limited to 0 to 1, is
//     b = log(v(L)/v(m)) / log(p(L)/p(m)): how fast v grew up to L, relative to the
//     prior. Here m is the largest measured size up to L/2, or the smallest measured
//     size if there is none. So a curve that already bends continues to bend, and one that
//     is past its peak stays flat;
//   - without any measurement, t(1) counts as 1 s. Then Speedup is meaningful, but
//     Time is not (see Measured).
//
// Sizes borrowed from other jobs of the kind (see Shape) count as measured here.
type Curve struct {
	points []Point   // measured
	fitted []Point   // points and sizes borrowed from other jobs of the kind
	dense  []float64 // step time at 1, 2, …, measured or filled in
	first  float64   // step time at 1
	tail   float64   // exponent of the prior above the largest measured size
}

// NewCurve returns a curve of measured points, in any order. It ignores invalid
// points (size below 1, time not positive and finite). If two points have the same
// size, the later one counts.
func NewCurve(points ...Point) Curve {
	var c Curve
	for _, p := range points {
		if p.Size < 1 || !(p.StepTime > 0) || math.IsInf(p.StepTime, 1) {
			continue
		}
		p.Samples = max(p.Samples, 1)
		if !(p.Spread > 0) || math.IsInf(p.Spread, 1) {
			p.Spread = 0
		}
		i, found := slices.BinarySearchFunc(c.points, p.Size, pointSize)
		if found {
			c.points[i] = p
		} else {
			c.points = slices.Insert(c.points, i, p)
		}
	}
	c.fitted = c.points
	c.fill()
	return c
}

// CurveOf returns a curve of step times in seconds at sizes 1, 2, 3 and so on.
func CurveOf(stepTimes ...float64) Curve {
	points := make([]Point, len(stepTimes))
	for i, t := range stepTimes {
		points[i] = Point{Size: i + 1, StepTime: t}
	}
	return NewCurve(points...)
}

func pointSize(p Point, size int) int { return p.Size - size }

// fill computes the fields that lookups read.
func (c *Curve) fill() {
	if len(c.fitted) == 0 {
		return
	}
	last := c.fitted[len(c.fitted)-1]
	c.tail = 1
	if len(c.fitted) > 1 {
		// The nearest point at half the size or less: closer ones would make the
		// exponent mostly noise.
		i := sort.Search(len(c.fitted), func(i int) bool { return c.fitted[i].Size > last.Size/2 }) - 1
		near := c.fitted[max(i, 0)]
		b := math.Log(near.StepTime/last.StepTime) / math.Log(prior(last.Size)/prior(near.Size))
		c.tail = min(max(b, 0), 1)
	}
	n := min(last.Size, denseLimit)
	dense := make([]float64, n)
	for i := range dense {
		dense[i] = c.compute(i + 1)
	}
	c.dense = dense
	c.first = dense[0]
}

// prior returns the speed-up assumed before anything is measured.
func prior(n int) float64 {
	x := float64(n)
	return x / (1 + priorSerial*(x-1))
}

// compute does the work of Time without the table.
func (c *Curve) compute(n int) float64 {
	i := sort.Search(len(c.fitted), func(i int) bool { return c.fitted[i].Size >= n })
	switch {
	case i == len(c.fitted):
		p := c.fitted[i-1]
		return p.StepTime * math.Pow(prior(p.Size)/prior(n), c.tail)
	case c.fitted[i].Size == n:
		return c.fitted[i].StepTime
	case i == 0:
		p := c.fitted[0]
		return p.StepTime * prior(p.Size) / prior(n)
	}
	a, b := c.fitted[i-1], c.fitted[i]
	w := float64(n-a.Size) / float64(b.Size-a.Size)
	return 1 / ((1-w)/a.StepTime + w/b.StepTime)
}

// Time returns the time of one global step with n workers in seconds, measured or
// estimated. It is +Inf for n below 1.
func (c *Curve) Time(n int) float64 {
	if n >= 1 && n <= len(c.dense) {
		return c.dense[n-1]
	}
	if n < 1 {
		return math.Inf(1)
	}
	if len(c.fitted) == 0 {
		return 1 / prior(n)
	}
	return c.compute(n)
}

// Speedup returns t(1)/t(n), or 0 for n below 1.
func (c *Curve) Speedup(n int) float64 {
	if n >= 1 && n <= len(c.dense) {
		return c.first / c.dense[n-1]
	}
	if n < 1 {
		return 0
	}
	return c.Time(1) / c.Time(n)
}

// Measured reports whether the job itself was measured at any size. Only then are
// the results of Time real seconds.
func (c *Curve) Measured() bool { return len(c.points) > 0 }

// Known reports whether size n itself was measured.
func (c *Curve) Known(n int) bool {
	_, ok := slices.BinarySearchFunc(c.points, n, pointSize)
	return ok
}

// Largest returns the largest size measured, on the job itself or on others of its
// kind; 0 if there is none.
func (c *Curve) Largest() int {
	if len(c.fitted) == 0 {
		return 0
	}
	return c.fitted[len(c.fitted)-1].Size
}

// Points returns a copy of the measured points by ascending size.
func (c *Curve) Points() []Point { return slices.Clone(c.points) }

// MarshalJSON writes the measured points.
func (c Curve) MarshalJSON() ([]byte, error) {
	if c.points == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(c.points)
}

// UnmarshalJSON reads measured points.
func (c *Curve) UnmarshalJSON(b []byte) error {
	var points []Point
	if err := json.Unmarshal(b, &points); err != nil {
		return err
	}
	*c = NewCurve(points...)
	return nil
}
