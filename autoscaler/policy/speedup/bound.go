// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"math"
	"slices"
)

// Sublinear returns the curve with no speed-up between two sizes m < n beyond
// n/m, with no slack. Jobs report their own times: a false one must not bring a
// job more GPUs than perfect scaling would.
//
// Where the times claim more, the smaller size is taken to be as fast for each of
// its workers as the larger one. Honest curves do claim more behind a dip (the
// yolov3 of the Pollux traces is 1.36 times as fast for each worker on 9 GPUs as on
// 7), and raising the larger size's time instead would keep jobs from ever passing
// one.
func (c Curve) Sublinear() Curve {
	out := Curve{points: c.Points(), fitted: slices.Clone(c.fitted)}
	changed, least := false, math.Inf(1) // worker-seconds of a step, at this size or a larger one
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
		k, _ := slices.BinarySearchFunc(out.fitted, out.points[i].Size, pointSize) // what is measured is fitted
		out.points[i].StepTime = out.fitted[k].StepTime
	}
	out.fill()
	return out
}
