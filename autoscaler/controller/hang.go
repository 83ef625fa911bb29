// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import "time"

// A job hangs if its training answers, but has made no step for hungAfter and for hungSteps
// times its step time. Unlike an idle job, which its pool's idle_after defines, it is only shown.
const (
	hungAfter = time.Minute
	hungSteps = 10
)

// hangs returns for how long the job has made no step, if it hangs; else 0. A job with an
// unknown step time does not hang, because its first steps may be long.
func (j *job) hangs(running int) time.Duration {
	if running == 0 || j.training == nil || j.training.Phase != "" && j.training.Phase != "training" {
		return 0
	}
	usual := 0.0 // of this size, or else the longest
	for _, p := range j.Points() {
		step := p.StepTime * j.PerStep(p.Size) // the known times are those of a unit of work
		if p.Size == running {
			usual = step
			break
		}
		usual = max(usual, step)
	}
	quiet := j.series.Heard().Sub(j.series.Stepped())
	if usual == 0 || quiet < hungAfter || quiet.Seconds() < hungSteps*usual {
		return 0
	}
	return quiet
}
