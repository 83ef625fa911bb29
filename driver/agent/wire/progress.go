// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"math"
	"slices"
)

// Progress is the newest line that a script wrote to its progress file.
type Progress struct {
	Generation uint64 `json:"generation"`
	// At is when the line was written, in Unix seconds by the clock of its host.
	At         float64  `json:"at"`
	Step       *float64 `json:"step,omitempty"`
	Samples    *float64 `json:"samples,omitempty"`
	Epoch      *float64 `json:"epoch,omitempty"`
	TotalSteps *float64 `json:"total_steps,omitempty"`
	Loss       *float64 `json:"loss,omitempty"`
	// Adaptive is the batch of a script that adapts it, nil for any other script.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	// First, FirstSamples and FirstAt are the step, samples and time of the first line
	// of this generation.
	First        *float64 `json:"first,omitempty"`
	FirstSamples *float64 `json:"first_samples,omitempty"`
	FirstAt      float64  `json:"first_at,omitempty"`
	// Every is the largest number of steps between two lines of this generation, 0 until
	// there are two. Only if it is 1, the last step is known exactly.
	Every float64 `json:"every,omitempty"`
	// SteppedAt and FirstSteppedAt are the times of the last and the first step of this
	// generation, whether or not the script reported their numbers.
	SteppedAt      float64 `json:"stepped_at,omitempty"`
	FirstSteppedAt float64 `json:"first_stepped_at,omitempty"`
	// Made is the number of new steps that the host has seen since its last message about
	// this process, and Slowest the longest time in seconds between two of them, 0 if
	// unknown. A host of an earlier version reports neither.
	Made    int     `json:"made,omitempty"`
	Slowest float64 `json:"slowest,omitempty"`
	// Last states which rank arrived last in steps since the host's last message, at most
	// MaxLast of them. A script or a host of an earlier version does not report it.
	Last []Last `json:"last,omitempty"`
	// Slow is the reason, given by the script, why its next step takes long. It is empty
	// if that step is over, and nil if the line is about something else. A host passes it
	// on in a separate message; see the type Slow.
	Slow *string `json:"-"`
}

// Last states which rank arrived last in the exchange of one step, so that the others
// waited for it.
type Last struct {
	Rank int `json:"rank"`
	// Behind is the time in seconds between the median of the other ranks and its arrival.
	Behind float64 `json:"behind"`
}

// Adaptive describes a batch that the script adapts while it trains. The samples that such a
// script reports are its work: what its steps are worth, in samples of the initial batch.
type Adaptive struct {
	Initial float64 `json:"initial"` // batch for which the learning rate is meant, in samples of all ranks
	Batch   float64 `json:"batch"`   // samples of all ranks in a step
	// Accumulation is the number of forward passes of each rank in a step.
	Accumulation float64 `json:"accumulation"`
	// Efficiency is how much a sample contributes, relative to one of the initial batch.
	Efficiency float64 `json:"efficiency"`
	LRFactor   float64 `json:"lr_factor"` // by which the learning rate is multiplied
}

// Bounds of the numbers of an Adaptive.
const (
	maxBatch      = 1 << 30
	maxFactor     = 1e6
	minEfficiency = 1e-9
)

// valid reports whether the numbers are possible.
func (a *Adaptive) valid() bool {
	within := func(v, least, most float64) bool { return v >= least && v <= most }
	return within(a.Initial, 1, maxBatch) && within(a.Batch, 1, maxBatch) && within(a.Accumulation, 1, maxBatch) &&
		within(a.Efficiency, minEfficiency, maxFactor) && within(a.LRFactor, 0, maxFactor)
}

// MaxLast is the largest number of steps in Progress.Last.
const MaxLast = 128

// Newest returns the time of the script's last report of any kind, 0 if there
// was none.
func (p *Progress) Newest() float64 { return max(p.At, p.SteppedAt) }

// Counts reports whether a line of a script contains anything that is counted.
func (p *Progress) Counts() bool {
	return p.Step != nil || p.Samples != nil || p.Epoch != nil || p.TotalSteps != nil || p.Loss != nil
}

// MaxCount is the largest count that a script may report. Up to it, a float64 represents
// every whole number. Sums of larger ones might not be representable in JSON.
const MaxCount = 1 << 53

// Bound drops values that can't be counts or times.
func (p *Progress) Bound() {
	for _, v := range []**float64{&p.Step, &p.Samples, &p.Epoch, &p.TotalSteps, &p.First, &p.FirstSamples} {
		if *v != nil && math.Abs(**v) > MaxCount {
			*v = nil
		}
	}
	for _, v := range []*float64{&p.At, &p.FirstAt, &p.Every, &p.SteppedAt, &p.FirstSteppedAt} {
		if math.Abs(*v) > MaxCount {
			*v = 0
		}
	}
	if p.Adaptive != nil && !p.Adaptive.valid() {
		p.Adaptive = nil
	}
	p.Slowest = min(max(p.Slowest, 0), maxSlowest)
	p.Last = boundLast(p.Last)
}

// boundLast returns the newest MaxLast valid entries.
func boundLast(last []Last) []Last {
	valid := func(l Last) bool { return l.Rank >= 0 && l.Behind >= 0 && l.Behind <= maxSlowest }
	last = slices.DeleteFunc(slices.Clone(last), func(l Last) bool { return !valid(l) })
	return last[max(0, len(last)-MaxLast):]
}

// AddLast adds entries from a line of a script.
func (p *Progress) AddLast(last []Last) {
	if len(last) > 0 {
		p.Last = boundLast(append(slices.Clone(p.Last), last...))
	}
}

// maxSlowest bounds Slowest and Last.Behind, in seconds, so that its multiples are durations.
const maxSlowest = 30 * 24 * 3600
