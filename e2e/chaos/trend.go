// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
)

// A trend is how much more of a resource the processes of a role use as they age, with its
// limit.
type trend struct {
	role  role
	unit  string // unit of age
	what  string
	value func(usage) float64
	// from is the age at which it starts to count, since the first rings fill caches.
	from int
	// Growth is too much if it is more than each per unit of age and also more than inAll
	// in total. So a slow leak in a long run is found, while noise in a short one is not
	// taken for a leak.
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

// of returns the samples that count.
func (t trend) of(samples []usage) []usage {
	return slices.DeleteFunc(slices.Clone(samples), func(u usage) bool { return u.Role != t.role || u.Age < t.from })
}

func (t trend) exceeded(samples []usage) bool {
	_, ages := ages(t.of(samples))
	slope := t.slope(samples)
	return slope > t.each && slope*float64(ages) > t.inAll
}

// slope returns the growth per unit of age, in rings of the same size. It is the median
// over all pairs of samples whose ages differ by at least a quarter of the whole range
// (Theil-Sen estimator). Up to a quarter of all samples may be outliers without changing it
// much.
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

// ages returns the highest age, and the range of ages.
func ages(of []usage) (oldest, apart int) {
	if len(of) == 0 {
		return 0, 0
	}
	byAge := func(a, b usage) int { return cmp.Compare(a.Age, b.Age) }
	oldest = slices.MaxFunc(of, byAge).Age
	return oldest, oldest - slices.MinFunc(of, byAge).Age
}

// median returns the median of values, which it sorts; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
