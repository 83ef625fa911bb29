// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package timeline

import (
	"math"
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
	first   time.Time // of the first report
	samples []sample
	every   time.Duration
	marks   []Mark
	stepped time.Time
}

// sample is a Sample in less memory: there may be thousands of series.
type sample struct {
	after               time.Duration // since Series.first
	step, samples, loss float64       // loss is NaN if it is not known
	size                int32
}

func (s *Series) pack(p *Sample) sample {
	out := sample{after: p.At.Sub(s.first), step: p.Step, samples: p.Samples, loss: math.NaN(), size: int32(min(p.Size, math.MaxInt32))}
	if p.Loss != nil {
		out.loss = *p.Loss
	}
	return out
}

func (s *Series) unpack(p *sample) Sample {
	out := Sample{At: s.first.Add(p.after), Size: int(p.size), Step: p.step, Samples: p.samples}
	if !math.IsNaN(p.loss) {
		loss := p.loss
		out.Loss = &loss
	}
	return out
}

// Add appends a report. If the last sample is too recent, the report replaces it. So the last
// sample is always the newest report.
func (s *Series) Add(report Sample) {
	if s.every == 0 {
		s.every, s.first = firstGap, report.At
	}
	p, n := s.pack(&report), len(s.samples)
	if n > 0 && p.after < s.samples[n-1].after {
		return // the answers of two probes can arrive in the wrong order
	}
	if n == 0 || p.step > s.samples[n-1].step || p.samples > s.samples[n-1].samples {
		s.stepped = report.At
	}
	if n > 1 && p.after-s.samples[n-2].after < s.every && p.size == s.samples[n-2].size && s.samples[n-1].size == p.size {
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
	if len(s.samples) == cap(s.samples) { // append would reserve more than mostSamples
		more := make([]sample, len(s.samples), min(max(8, 2*len(s.samples)), mostSamples))
		copy(more, s.samples)
		s.samples = more
	}
	s.samples = append(s.samples, p)
}

// Note appends changes of the ring.
func (s *Series) Note(marks ...Mark) {
	marks = marks[max(0, len(marks)-mostMarks):]
	s.marks = append(slices.Delete(s.marks, 0, max(0, len(s.marks)+len(marks)-mostMarks)), marks...)
}

// Samples returns a copy of the samples, oldest first.
func (s *Series) Samples() []Sample {
	out := make([]Sample, len(s.samples))
	for i := range s.samples {
		out[i] = s.unpack(&s.samples[i])
	}
	return out
}

// Marks returns a copy of the marks, oldest first.
func (s *Series) Marks() []Mark { return slices.Clone(s.marks) }

// Heard returns the time of the training's last answer, or zero if it never
// answered.
func (s *Series) Heard() time.Time {
	if len(s.samples) == 0 {
		return time.Time{}
	}
	return s.first.Add(s.samples[len(s.samples)-1].after)
}

// Stepped returns the time at which the training last reported a new step, or zero if it has
// not answered yet.
func (s *Series) Stepped() time.Time { return s.stepped }
