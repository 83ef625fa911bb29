// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Curve is the true step time of a job by number of workers.
type Curve struct {
	times []float64 // times[n] for n workers; times[0] is unused
}

// NewCurve returns the curve with times[i] seconds per step on i+1 workers.
func NewCurve(times []float64) (*Curve, error) {
	if len(times) == 0 {
		return nil, errors.New("a curve needs at least one step time")
	}
	for i, t := range times {
		if !finite(t) || t <= 0 {
			return nil, fmt.Errorf("step time on %d workers is %v: want more than 0", i+1, t)
		}
	}
	return &Curve{times: append([]float64{0}, times...)}, nil
}

// Interpolate returns a curve for 1 to most workers through measured points. Between two
// points the step time is a straight line in logarithms of size and time. Below the first
// point, workers scale linearly; above the last one, more workers gain nothing.
func Interpolate(points map[int]float64, most int) (*Curve, error) {
	sizes := slices.Sorted(maps.Keys(points))
	if len(sizes) == 0 {
		return nil, errors.New("a curve needs at least one measured point")
	}
	if sizes[0] < 1 {
		return nil, fmt.Errorf("step time on %d workers: want at least 1", sizes[0])
	}
	first, last := sizes[0], sizes[len(sizes)-1]
	times := make([]float64, 0, max(most, last))
	for n, k := 1, 0; n <= max(most, last); n++ {
		for k+1 < len(sizes) && sizes[k+1] <= n {
			k++
		}
		switch {
		case n <= first:
			times = append(times, points[first]*float64(first)/float64(n))
		case n == sizes[k] || n >= last:
			times = append(times, points[sizes[k]])
		default:
			lo, hi := sizes[k], sizes[k+1]
			f := math.Log(float64(n)/float64(lo)) / math.Log(float64(hi)/float64(lo))
			times = append(times, math.Exp((1-f)*math.Log(points[lo])+f*math.Log(points[hi])))
		}
	}
	return NewCurve(times)
}

// PowerCurve returns the curve t(n) = t1 / n^alpha for 1 to most workers. It stands in for
// traces that record how long a job ran but not how it scales.
func PowerCurve(t1, alpha float64, most int) (*Curve, error) {
	times := make([]float64, most)
	for i := range times {
		times[i] = t1 / math.Pow(float64(i+1), alpha)
	}
	return NewCurve(times)
}

// StepTime returns the time of one global step on n workers, in seconds. Beyond the largest
// known size, it returns the time at that size.
func (c *Curve) StepTime(n int) float64 {
	if n < 1 {
		return math.Inf(1)
	}
	return c.times[min(n, len(c.times)-1)]
}

// Most returns the largest size that the curve knows.
func (c *Curve) Most() int { return len(c.times) - 1 }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
