// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"math"
	"slices"
)

// Sublinear returns the curve with the speed-up between any two sizes m < n limited
// to n/m. Jobs report their own times, and a false report must not bring a job more
// GPUs than perfect scaling would.
//
// If the measured speed-up is larger, the smaller size is assumed to be as fast per
// worker as the larger one. Honest curves exceed n/m, too, after a dip: yolov3 in
// the Pollux traces is 1.36 times as fast per worker on 9 GPUs as on 7. To make the
// larger size slower instead would keep jobs from ever growing across a dip.
func (c Curve) Sublinear() Curve {
	out := Curve{points: c.Points(), fitted: slices.Clone(c.fitted)}
	changed, least := false, math.Inf(1) // fewest worker-seconds of a step, at this size or a larger one
	for i := len(out.fitted) - 1; i >= 0; i-- {
		p := &out.fitted[i]
		size := float64(p.Size)
		if cost := p.StepTime * size; cost <= least {
			least = cost
			continue
		}
		p.StepTime, changed = least/size, true
	}
	if !changed {
		return c
	}
	for i := range out.points {
		k, _ := slices.BinarySearchFunc(out.fitted, out.points[i].Size, pointSize) // every measured size is in fitted
		out.points[i].StepTime = out.fitted[k].StepTime
	}
	out.fill()
	return out
}
