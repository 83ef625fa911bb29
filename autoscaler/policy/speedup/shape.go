// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sort"
)

// Shape describes how the jobs of one kind scale, learned from jobs that were
// measured at more than one size. A job with few measurements, or none, borrows
// from the shape of its kind (see Extend). Users run much the same training again
// and again, so a run need not repeat the resizes from which an earlier one
// learned.
//
// Jobs share only how fast sizes are relative to each other. The absolute speed of
// a job depends on its batch size and model size, which may differ between jobs of
// one kind. Therefore a shape learns nothing from a job that was measured at one
// size only, and borrowed times are scaled to the job's own measurements.
//
// The zero Shape has learned nothing.
type Shape struct {
	at []rate // by ascending size
}

// rate is the logarithm of the throughput at a size, up to a constant that all
// rates of a shape share.
type rate struct {
	Size   int     `json:"size"`
	Log    float64 `json:"log"`
	Weight float64 `json:"weight"` // number of measurements behind it, at most shapeLimit
}

// shapeLimit bounds the weight of past measurements, so that a shape follows a
// program that changes.
const shapeLimit = 20

// shapeSizes bounds the sizes of a shape. Shapes of several kinds share storage,
// and the sizes come from reports of the jobs themselves.
const shapeSizes = 256

// excess returns the logarithm of the throughput relative to the prior: as
// measured, linear in log n between measured sizes, and constant outside them.
func excess(at []rate, n int) float64 {
	if len(at) == 0 {
		return 0
	}
	over := func(r rate) float64 { return r.Log - math.Log(prior(r.Size)) }
	i := sort.Search(len(at), func(i int) bool { return at[i].Size >= n })
	switch {
	case i == len(at):
		return over(at[i-1])
	case i == 0 || at[i].Size == n:
		return over(at[i])
	}
	a, b := at[i-1], at[i]
	w := math.Log(float64(n)/float64(a.Size)) / math.Log(float64(b.Size)/float64(a.Size))
	return (1-w)*over(a) + w*over(b)
}

// Learn adds a new measurement of a job of the kind, at the given size; c is the
// job's curve, which includes it. From the curve's other sizes, Learn computes how
// fast the job is compared with the shape.
func (s *Shape) Learn(c Curve, size int) {
	i, known := slices.BinarySearchFunc(c.points, size, pointSize)
	if !known || len(c.points) < 2 {
		return
	}
	offset := 0.0
	for _, p := range c.points {
		if p.Size != size {
			offset -= math.Log(p.StepTime) + math.Log(prior(p.Size)) + excess(s.at, p.Size)
		}
	}
	offset /= float64(len(c.points) - 1)
	if len(s.at) == 0 {
		for _, p := range c.points {
			s.at = append(s.at, rate{Size: p.Size, Log: -math.Log(p.StepTime) - offset, Weight: 1})
		}
		return
	}
	seen := -math.Log(c.points[i].StepTime) - offset
	k, found := slices.BinarySearchFunc(s.at, size, func(r rate, n int) int { return r.Size - n })
	if !found {
		if len(s.at) < shapeSizes {
			s.at = slices.Insert(s.at, k, rate{Size: size, Log: seen, Weight: 1})
		}
		return
	}
	r := &s.at[k]
	r.Weight = min(r.Weight+1, shapeLimit)
	r.Log += (seen - r.Log) / r.Weight
}

// Extend returns the curve c of a job of the kind with additional sizes: it takes
// their times, scaled to the job, from the shape. The job's own measurements stay
// as they are. Points, Known and Measured ignore the additional sizes.
func (s *Shape) Extend(c Curve) Curve {
	if len(s.at) == 0 {
		return c
	}
	// How much faster the job is than the shape predicts, by size.
	own := make([]rate, len(c.points))
	for i, p := range c.points {
		own[i] = rate{Size: p.Size, Log: -math.Log(p.StepTime) - excess(s.at, p.Size)}
	}
	all := c.Points()
	for _, r := range s.at {
		if !c.Known(r.Size) {
			all = append(all, Point{Size: r.Size, StepTime: math.Exp(-r.Log - excess(own, r.Size)), Samples: 1})
		}
	}
	slices.SortFunc(all, func(a, b Point) int { return cmp.Compare(a.Size, b.Size) })
	out := Curve{points: c.points, fitted: all}
	out.fill()
	return out
}

// NonImproving returns the sizes at which the shape is no faster than at some
// smaller size, in ascending order.
func (s *Shape) NonImproving() []int {
	var out []int
	most := math.Inf(-1)
	for _, r := range s.at {
		if r.Log <= most {
			out = append(out, r.Size)
		}
		most = max(most, r.Log)
	}
	return out
}

// Without returns the shape without the given sizes.
func (s *Shape) Without(sizes ...int) Shape {
	return Shape{at: slices.DeleteFunc(slices.Clone(s.at), func(r rate) bool { return slices.Contains(sizes, r.Size) })}
}

// MarshalJSON writes the learned rates.
func (s Shape) MarshalJSON() ([]byte, error) {
	return json.Marshal(s.at)
}

// UnmarshalJSON reads the learned rates. It ignores invalid sizes and values.
func (s *Shape) UnmarshalJSON(b []byte) error {
	var points []rate
	if err := json.Unmarshal(b, &points); err != nil {
		return err
	}
	*s = Shape{}
	last := 0
	for _, p := range points {
		if p.Size > last && p.Weight >= 1 && math.Abs(p.Log) < 100 {
			p.Weight = min(p.Weight, shapeLimit)
			s.at = append(s.at, p)
			last = p.Size
		}
	}
	return nil
}
