// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package timeline

import (
	"slices"
	"time"
)

// Limits of a series.
const (
	mostSamples = 360
	mostMarks   = 64
	firstGap    = 2 * time.Second // between two samples of a new series
)

// Sample is one report of a training.
type Sample struct {
	At      time.Time
	Size    int     // slots in the ring
	Step    float64 // counted by the script
	Samples float64 // 0 if the script does not report them
	Loss    *float64
}

// Mark is a change of the ring.
type Mark struct {
	At       time.Time
	From, To int
	Cause    string   // resize or failure
	Seconds  *float64 // without training; nil if unknown
	Lost     *float64 // repeated steps; nil if unknown
}

// Series holds reports of one training, from the first to the last. The zero Series is empty.
// It is not safe for concurrent use.
type Series struct {
	samples []Sample
	every   time.Duration
	marks   []Mark
	stepped time.Time
}

// Add appends a report. If the last sample is too recent, the report replaces it. So the last
// sample is always the newest report.
func (s *Series) Add(p Sample) {
	if s.every == 0 {
		s.every = firstGap
	}
	n := len(s.samples)
	if n > 0 && p.At.Before(s.samples[n-1].At) {
		return // the answers of two probes can arrive in the wrong order
	}
	if n == 0 || p.Step > s.samples[n-1].Step || p.Samples > s.samples[n-1].Samples {
		s.stepped = p.At
	}
	if n > 1 && p.At.Sub(s.samples[n-2].At) < s.every && p.Size == s.samples[n-2].Size && s.samples[n-1].Size == p.Size {
		s.samples[n-1] = p
		return
	}
	if n == mostSamples {
		kept := s.samples[:0]
		for i := 0; i < n; i += 2 {
			kept = append(kept, s.samples[i])
		}
		s.samples, s.every = kept, 2*s.every
	}
	s.samples = append(s.samples, p)
}

// Note appends changes of the ring.
func (s *Series) Note(marks ...Mark) {
	s.marks = append(s.marks, marks...)
	s.marks = slices.Delete(s.marks, 0, max(0, len(s.marks)-mostMarks))
}

// Samples returns a copy of the samples, oldest first.
func (s *Series) Samples() []Sample { return slices.Clone(s.samples) }

// Marks returns a copy of the marks, oldest first.
func (s *Series) Marks() []Mark { return slices.Clone(s.marks) }

// Heard returns the time of the training's last answer, or zero if it never
// answered.
func (s *Series) Heard() time.Time {
	if len(s.samples) == 0 {
		return time.Time{}
	}
	return s.samples[len(s.samples)-1].At
}

// Stepped returns the time at which the training last reported a new step, or zero if it has
// not answered yet.
func (s *Series) Stepped() time.Time { return s.stepped }
