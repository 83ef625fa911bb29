// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// lengthsLimit bounds how many lengths of a kind are remembered.
const lengthsLimit = 16

// Length returns the work that a job has done, in seconds on one worker: by its steps, if
// its training reports them, else by the time for which it had workers. slots is the number
// of slots of one worker.
func (j *Job) Length(curve speedup.Curve, slots int) float64 {
	if curve.Measured() && j.Done > 0 {
		return min(j.Done*curve.Time(1), maxSeconds)
	}
	if !(j.RunTime > 0) {
		return 0
	}
	workers := math.Round(j.Attained / j.RunTime / float64(max(1, slots)))
	return min(j.RunTime*curve.Speedup(max(1, int(min(workers, maxSeconds)))), maxSeconds)
}

// LearnLength lets the kind of a job that has just completed learn its length. Unless
// the job names its kind, only a kind that is remembered anyway learns: names that are used
// once would displace those that return.
func (h *History) LearnLength(kind string, named bool, j *Job, slots int, now time.Time) {
	length := j.Length(h.Curve(j, kind), slots)
	if !(length > 0) || !named && h.Kinds[kind] == nil {
		return
	}
	k := h.kind(kind, now)
	k.Lengths = append(k.Lengths[max(0, len(k.Lengths)+1-lengthsLimit):], math.Ceil(length))
}

// Lengths returns the lengths of the last jobs of a kind.
func (h *History) Lengths(kind string) []float64 {
	if k := h.Kinds[kind]; k != nil {
		return slices.Clone(k.Lengths)
	}
	return nil
}
