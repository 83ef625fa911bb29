// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import "math"

// vertex is a size of a job, the GPUs it holds, and its value.
type vertex struct {
	n           int
	gpus, worth float64
}

// hull is the upper concave hull of value over GPUs, starting at the current size.
// Slopes fall along a hull, so taking the edges of many jobs in order of slope
// maximises the total value.
type hull []vertex

func (h *hull) reset(n int, gpus, worth float64) {
	*h = append((*h)[:0], vertex{n, gpus, worth})
}

// slope returns the value per GPU of the edge that ends at vertex i.
func (h hull) slope(i int) float64 {
	return (h[i].worth - h[i-1].worth) / (h[i].gpus - h[i-1].gpus)
}

// straight is the relative difference above which one slope counts as steeper than
// another. Sizes on one line stay separate vertices: the smaller may fit where the
// larger does not.
const straight = 1e-9

// add appends a size that is larger than all earlier ones.
func (h *hull) add(n int, gpus, worth float64) {
	v := vertex{n, gpus, worth}
	for len(*h) > 1 {
		last := (*h)[len(*h)-1]
		before, after := h.slope(len(*h)-1), (v.worth-last.worth)/(v.gpus-last.gpus)
		if after-before <= straight*math.Abs(before) {
			break
		}
		*h = (*h)[:len(*h)-1]
	}
	*h = append(*h, v)
}

// trim drops the edges that gain nothing.
func (h *hull) trim() {
	for len(*h) > 1 && !(h.slope(len(*h)-1) > 0) {
		*h = (*h)[:len(*h)-1]
	}
}
