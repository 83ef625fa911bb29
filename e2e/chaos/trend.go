// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
)

// A trend is how much more of something the processes of a role have, the older they
// are, and how much that may be.
type trend struct {
	role  role
	unit  string // of age
	what  string
	value func(usage) float64
	// from is the age from which on it counts: the first rings fill caches.
	from int
	// Growth is too much if it is more than each for each unit of age, and comes to
	// more than in all: so neither a slow leak of a long run is missed, nor the noise
	// of a short one taken for a leak.
	each, inAll float64
}

var trends = []trend{
	{launcher, "change", "descriptors", openOf, 0, 0.2, 15},
	{launcher, "change", "MB", megabytes, 0, 0.02, 12},
	{trainer, "ring", "descriptors", openOf, 0, 0.2, 5},
	{trainer, "ring", "MB", megabytes, 6, 0.2, 3},
}

func openOf(u usage) float64    { return float64(u.Descriptors) }
func megabytes(u usage) float64 { return float64(u.Memory) / 1e6 }

// of are the samples that count.
func (t trend) of(samples []usage) []usage {
	return slices.DeleteFunc(slices.Clone(samples), func(u usage) bool { return u.Role != t.role || u.Age < t.from })
}

func (t trend) exceeded(samples []usage) bool {
	_, ages := ages(t.of(samples))
	slope := t.slope(samples)
	return slope > t.each && slope*float64(ages) > t.inAll
}

// slope is the growth for each unit of age, in rings of the same size: the median
// over all pairs of samples whose ages are at least a quarter of the whole range
// apart (Theil and Sen's estimator). Up to a quarter of all samples may be anything
// without moving it far.
func (t trend) slope(samples []usage) float64 {
	of := t.of(samples)
	_, ages := ages(of)
	var slopes []float64
	for _, old := range of {
		for _, young := range of {
			if old.Ranks == young.Ranks && old.Age-young.Age >= max(1, ages/4) {
				slopes = append(slopes, (t.value(old)-t.value(young))/float64(old.Age-young.Age))
			}
		}
	}
	return median(slopes)
}

func (t trend) describe(samples []usage) string {
	of := t.of(samples)
	var values []float64
	for _, u := range of {
		values = append(values, t.value(u))
	}
	oldest, _ := ages(of)
	return fmt.Sprintf("%.1f %s, %+.3f after each %s, in %d samples of up to %d", median(values), t.what, t.slope(samples), t.unit, len(of), oldest)
}

// ages are the oldest one, and how far it is from the youngest.
func ages(of []usage) (oldest, apart int) {
	if len(of) == 0 {
		return 0, 0
	}
	byAge := func(a, b usage) int { return cmp.Compare(a.Age, b.Age) }
	oldest = slices.MaxFunc(of, byAge).Age
	return oldest, oldest - slices.MinFunc(of, byAge).Age
}

// median of values, which it sorts; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
