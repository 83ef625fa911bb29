// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"math"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// lengthsLimit is how many lengths of a kind are remembered.
const lengthsLimit = 16

// Length returns the work that a job has done, in seconds on one worker. It is computed
// from the job's steps or, if the training reports none, from the time for which the job
// had workers. slots is the number of slots of one worker.
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

// LearnLength adds the length of a job that has just completed to its kind. If the job does
// not name its kind, and the kind is not known yet, nothing is added: names that are used
// only once would displace others.
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
