// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"slices"
	"strings"
)

// maxPoints bounds a series. It is even, because a full series keeps every second value.
const maxPoints = 128

// series holds values that were read at equal intervals. A full series drops every second value and
// doubles the interval. So its memory is bounded, and it still covers the whole time.
type series struct {
	values []float64
	every  int // number of reads for each value
	reads  int
}

// add adds the next value that was read.
func (s *series) add(v float64) {
	s.every = max(s.every, 1)
	if s.reads%s.every == 0 {
		if len(s.values) == maxPoints {
			for i := range maxPoints / 2 {
				s.values[i] = s.values[2*i]
			}
			s.values = s.values[:maxPoints/2]
			s.every *= 2
		}
		s.values = append(s.values, v)
	}
	s.reads++
}

var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the series as one line of at most width characters, newest last. Each character
// shows the largest value of its interval. The scale begins at 0 or, if fromLeast is set, at the
// smallest value.
func (s *series) sparkline(width int, fromLeast bool) string {
	n := len(s.values)
	if n == 0 || width < 1 {
		return ""
	}
	low, high := 0.0, slices.Max(s.values)
	if fromLeast {
		low = slices.Min(s.values)
	}
	columns := min(width, n)
	var out strings.Builder
	for c := range columns {
		v := slices.Max(s.values[c*n/columns : (c+1)*n/columns])
		bar := 0
		if high > low {
			bar = int((v - low) / (high - low) * float64(len(bars)-1))
		}
		out.WriteRune(bars[max(0, min(bar, len(bars)-1))])
	}
	return out.String()
}
