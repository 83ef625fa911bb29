// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"slices"
	"time"
)

// Adaptive describes the batch of a training that adapts it. Sizes are in samples of all
// ranks. The samples that such a training reports are its work: what its steps are worth, in
// samples of the initial batch.
type Adaptive struct {
	Initial      float64 `json:"initial"` // for which the learning rate is meant
	Batch        float64 `json:"batch"`
	Accumulation float64 `json:"accumulation"` // forward passes of each rank in a step
	Efficiency   float64 `json:"efficiency"`   // what a sample contributes, relative to one of the initial batch
	LRFactor     float64 `json:"lr_factor"`    // of the learning rate
}

// Bounds of the numbers of an Adaptive, as those of the driver.
const (
	maxBatch      = 1 << 30
	maxFactor     = 1e6
	minEfficiency = 1e-9
)

// Valid reports whether the numbers are possible.
func (a *Adaptive) Valid() bool {
	return within(a.Initial, 1, maxBatch) && within(a.Batch, 1, maxBatch) && within(a.Accumulation, 1, maxBatch) &&
		within(a.Efficiency, minEfficiency, maxFactor) && within(a.LRFactor, 0, maxFactor)
}

// Gain returns how many steps with the initial batch a step is worth.
func (a *Adaptive) Gain() float64 { return a.Efficiency * a.Batch / a.Initial }

// hearBatch records the batch of a training. Whether the training adapts its batch is decided
// by the first report with progress after the job had no workers: a script that changed its
// mind with each report would change the plan of its pool each time.
func (j *Job) hearBatch(p *Progress) {
	if !(p.Step > 0 || p.Samples > 0) {
		return
	}
	j.Adaptive = p.Adaptive
	if j.heard {
		return
	}
	unit := j.Batch
	switch {
	case p.Adaptive != nil:
		unit = p.Adaptive.Initial
	case j.Adapts:
		unit = 0 // that of the next ring
	}
	if unit != j.Batch {
		j.Batch, j.Measurements, j.Placed, j.Total = unit, nil, nil, 0
	}
	j.heard, j.Adapts = true, p.Adaptive != nil
}

// PerStep returns how much work a step of the training is at a size, in steps of Batch
// samples. It is 1 if that is unknown.
func (j *Job) PerStep(size int) float64 {
	if j.Adapts {
		if j.Adaptive == nil {
			return 1
		}
		return j.Adaptive.Gain()
	}
	i := slices.IndexFunc(j.Measurements, func(m Measurement) bool { return m.Size == size })
	if i < 0 || j.Batch == 0 || !j.Measurements[i].last.hasSamples() {
		return 1
	}
	return j.Measurements[i].last.Samples / j.Batch
}

// adaptingLimit is how many queues of one kind are remembered.
const adaptingLimit = 16

// LearnAdapts lets a kind learn from a job of a queue whether the job adapts its batch. A job
// that has reported no progress yet teaches nothing.
func (h *History) LearnAdapts(kind, queue string, j *Job, now time.Time) {
	k := h.Kinds[kind]
	if !j.heard || k == nil && !j.Adapts {
		return
	}
	if k == nil {
		k = h.kind(kind, now)
	}
	i := slices.Index(k.Adapting, queue)
	switch {
	case j.Adapts && i < 0:
		k.Adapting = append(slices.Clone(k.Adapting[max(0, len(k.Adapting)+1-adaptingLimit):]), queue)
	case !j.Adapts && i >= 0:
		k.Adapting = slices.Delete(slices.Clone(k.Adapting), i, i+1)
	}
}

// Adapts reports whether a job of a queue adapts its batch. As long as the job has reported no
// progress, it is taken to do what the last job of its kind in the same queue did.
func (h *History) Adapts(j *Job, kind, queue string) bool {
	k := h.Kinds[kind]
	if j.Adapts || j.Done > 0 || k == nil {
		return j.Adapts
	}
	return slices.Contains(k.Adapting, queue)
}
