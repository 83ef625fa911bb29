// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Work returns the work of the whole training: what its job specification declares, else
// what it reports; 0 if both are unknown.
func (j *Job) Work(declared float64) float64 {
	if declared > 0 {
		return declared
	}
	return j.Total
}

// Left returns the job's remaining work in seconds of training at a size; ok is false if
// that is unknown.
func (j *Job) Left(declared float64, size int, curve speedup.Curve) (seconds float64, ok bool) {
	work := j.Work(declared)
	if size == 0 || !(work > j.Done) || !curve.Measured() {
		return 0, false
	}
	return (work - j.Done) * curve.Time(size), true
}

// Expected returns how many more seconds a job is expected to train at a size, 0 if that is
// unknown. A job whose work is unknown is expected to train for as long again as it has
// trained: in clusters, jobs that have run for long tend to run on for long (Harchol-Balter
// and Downey, SIGMETRICS'96).
func (j *Job) Expected(declared float64, size int) float64 {
	if j.Work(declared) == 0 {
		return j.RunTime
	}
	seconds, _ := j.Left(declared, size, speedup.NewCurve(j.Points()...))
	return seconds
}

// Gap returns how many seconds a resize of the job interrupts its training: the median of
// its last measured gaps, without those longer than longest. measured is false if no such
// gap was measured.
func (j *Job) Gap(longest float64) (seconds float64, measured bool) {
	own := slices.DeleteFunc(KnownSeconds(j.Gaps), func(s float64) bool { return s > longest })
	if len(own) == 0 {
		return 0, false
	}
	slices.Sort(own)
	return own[len(own)/2], true
}

// Repeated returns how many steps resizes made the job repeat, or nil if the number is
// unknown for any resize.
func (j *Job) Repeated() *float64 {
	if j.Uncounted {
		return nil
	}
	lost := j.Lost
	return &lost
}
