// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"math"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// adapt prepares a job that adapts its batch size.
func (j *job) adapt(cfg *Config) {
	if j.Goodput == nil {
		return
	}
	wrong := 1.0
	if cfg.Info.NoiseError > 0 {
		wrong = math.Exp(cfg.Info.NoiseError * draw(cfg.Seed, j.ID+" noise", 0))
	}
	j.phases = j.Goodput.Misjudged(wrong).Phases
	j.rest = j.Steps - j.phases[0].End
}

// nextPhase takes a job whose phase is complete to the next one. It returns false if there is
// none. The job chooses its batch size for the new phase at a commit, without a resize.
func (e *engine) nextPhase(j *job) bool {
	if j.phase+1 >= len(j.phases) {
		return false
	}
	j.left = j.rest
	j.committed = j.left
	was := j.shown()
	j.phase++
	j.rest = j.Steps - j.phases[j.phase].End
	j.place(e)
	e.changed = true
	if e.cfg.Info.Curves {
		if v := e.viewOf(j); v != nil {
			v.Curve = e.exact.of(j.shown())
		}
		return true
	}
	j.seen.rescale(was, j.shown())
	if j.seen.curve.Measured() {
		j.draft(e.cfg.Info.Noise)
		e.learned(j)
	}
	return true
}

// rescale converts measurements of one phase to the next. The job knows its time of a step by
// size and batch size; only the progress of a step has changed.
func (m *measured) rescale(from, to *trace.Curve) {
	for _, samples := range [][]sample{m.sizes, m.placed} {
		for i := range samples {
			s := &samples[i]
			s.step *= to.StepTime(s.size) / from.StepTime(s.size)
		}
	}
}

// shown returns the curve that the job measures at present.
func (j *job) shown() *trace.Curve {
	if j.phases == nil {
		return j.Curve
	}
	return j.phases[j.phase].Seen
}

// misjudged returns the measured time of a step, relative to the true one.
func (j *job) misjudged() float64 {
	if j.phases == nil {
		return 1
	}
	p := &j.phases[j.phase]
	return p.Seen.StepTime(j.n) / p.Curve.StepTime(j.n)
}

// inFirstPhase returns the factor that converts a measured time of a step to the first phase,
// so that times at two placements are comparable.
func (j *job) inFirstPhase() float64 {
	if j.phases == nil {
		return 1
	}
	return j.phases[0].Seen.StepTime(j.n) / j.shown().StepTime(j.n)
}

// timeOn returns the true time of a step with so many workers on each node.
func (j *job) timeOn(workers []int) float64 {
	if j.phases == nil {
		return j.StepTimeOn(workers)
	}
	n := 0
	for _, w := range workers {
		n += w
	}
	return j.phases[j.phase].Curve.StepTime(n)
}
