// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import "time"

// Quiet holds the time for which a job's training has answered but made no step. It exists
// only after the first reported step, so a training that reports no steps is never quiet.
type Quiet struct {
	Since time.Time  `json:"since"` // when the last step was seen
	Heard time.Time  `json:"heard"` // when the training last answered
	Marks [3]float64 `json:"marks"` // steps, samples and measured steps in the last answer
}

// Hear records an answer of the job's training. It returns whether the training has made a
// step since its last answer. If the counts fall, this is no step, because the training has
// started again from an earlier step.
func (j *Job) Hear(p *Progress, now time.Time) (stepped bool) {
	marks := [3]float64{p.Step, p.Samples, 0}
	for _, t := range p.StepSeconds {
		marks[2] += float64(max(0, t.N))
	}
	var before [3]float64
	if j.Quiet != nil {
		before = j.Quiet.Marks
	}
	for i := range marks {
		if !within(marks[i], 0, maxSteps) {
			marks[i] = before[i]
		}
		stepped = stepped || marks[i] > before[i]
	}
	if j.Quiet == nil {
		if !stepped {
			return false
		}
		j.Quiet = &Quiet{}
	}
	if stepped {
		j.Quiet.Since = now
	}
	j.Quiet.Heard, j.Quiet.Marks = now, marks
	return stepped
}

// QuietFor returns for how long the job's training has made no step, as of its last answer.
// Time in which the training does not answer does not count, because it may have made
// steps.
func (j *Job) QuietFor() time.Duration {
	if j.Quiet == nil {
		return 0
	}
	return max(0, j.Quiet.Heard.Sub(j.Quiet.Since))
}
