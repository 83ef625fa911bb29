// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// firstSteps is how many steps the first measurement of a size takes.
const firstSteps = 3

// measured holds the measured step times of a job: by size, as policies see them, and
// by size and place.
type measured struct {
	sizes  []sample // by size
	curve  speedup.Curve
	placed []sample // by size and crossing, if placement depends on it
}

type sample struct {
	size     int
	crossing migrate.Crossing
	steps    float64 // made at this size
	used     float64 // steps at the time the curve was made
	step     float64 // true seconds per step, as last seen
	normal   float64 // standard normal draw that this size's error follows
}

// at returns the sample of a size, which it makes if there is none.
func (m *measured) at(size int, j *job, seed uint64) *sample {
	i, found := slices.BinarySearchFunc(m.sizes, size, func(s sample, n int) int { return s.size - n })
	if !found {
		m.sizes = slices.Insert(m.sizes, i, sample{size: size, normal: draw(seed, j.ID, size)})
	}
	return &m.sizes[i]
}

// here returns the sample of the size and crossing that a job has now.
func (m *measured) here(j *job, seed uint64) *sample {
	i := slices.IndexFunc(m.placed, func(s sample) bool { return s.size == j.n && s.crossing == j.crossing })
	if i < 0 {
		i = len(m.placed)
		normal := draw(seed, j.ID+" "+j.crossing.Level+strconv.Itoa(j.crossing.Domains), j.n)
		m.placed = append(m.placed, sample{size: j.n, crossing: j.crossing, normal: normal})
	}
	return &m.placed[i]
}

// draw returns a standard normal number that depends only on its arguments. A policy that
// runs a job at other sizes therefore does not change other measurements.
func draw(seed uint64, id string, size int) float64 {
	h := fnv.New64a()
	h.Write([]byte(id)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), uint64(size))).NormFloat64()
}

// observe records steps made at the present size, and reports whether the curve changed.
// It changes when a size is measured for the first time, and each time the number of its
// steps has doubled; changes in between would be noise.
func (j *job) observe(steps, noise float64, seed uint64) (first, changed bool) {
	s := j.seen.at(j.n, j, seed)
	first, changed = s.take(steps, j.step*j.misjudged())
	if !changed {
		return false, false
	}
	j.draft(noise)
	return first, true
}

// draft makes the curve of all measured sizes.
func (j *job) draft(noise float64) {
	points := make([]speedup.Point, 0, len(j.seen.sizes))
	for _, s := range j.seen.sizes {
		if s.used > 0 {
			points = append(points, speedup.Point{
				Size: s.size, StepTime: s.step * s.wrong(noise),
				Samples: int(min(s.used, 1e9)), Spread: noise * s.step,
			})
		}
	}
	j.seen.curve = speedup.NewCurve(points...).Sublinear()
}

// take records steps of step seconds each, and reports whether the mean in use changes: at
// the first few, and each time their number has doubled.
func (s *sample) take(steps, step float64) (first, changed bool) {
	s.steps += steps
	s.step = step
	// The margin forgives rounding: late in a long trace, time has a resolution of some
	// nanoseconds, which is a part of a short step.
	if s.steps < firstSteps-0.01 || s.steps < 2*s.used {
		return false, false
	}
	first = s.used == 0
	s.used = s.steps
	return first, true
}

// wrong returns the measured mean relative to the true one. It stays above 0, as measured
// times do.
func (s *sample) wrong(noise float64) float64 {
	return max(1+noise*s.normal/math.Sqrt(s.used), 0.05)
}

// measureAt returns the time at which the first measurement of the present size is
// complete; +Inf if it already is.
func (j *job) measureAt(seed uint64) float64 {
	if j.n == 0 {
		return math.Inf(1)
	}
	s := j.seen.at(j.n, j, seed)
	if s.used > 0 {
		return math.Inf(1)
	}
	return max(j.at, j.gapEnd) + max(0, firstSteps-s.steps)*j.step
}

// advance brings one job to the present.
func (e *engine) advance(j *job) {
	if j.n == 0 {
		j.at = e.now
		return
	}
	from := j.at
	gap, steps := j.advance(e.now)
	gpus := float64(j.gpus())
	e.result.Gap += gap * gpus
	if e.scattered(j) {
		e.result.Scattered += (e.now - from) * gpus
	}
	if !e.cfg.Info.Curves && steps > 0 {
		first, changed := j.observe(steps, e.cfg.Info.Noise, e.cfg.Seed)
		e.changed = e.changed || first
		if first {
			e.want(e.now)
		}
		if changed {
			e.learned(j)
		}
		if e.aware() {
			s := j.seen.here(j, e.cfg.Seed)
			if _, changed := s.take(steps, j.step*j.misjudged()); changed {
				j.learn(s.step * s.wrong(e.cfg.Info.Noise) * j.inFirstPhase())
			}
		}
	}
}

// learned shows a job's curve to the policy, and to later jobs of the same kind.
func (e *engine) learned(j *job) {
	curve := j.seen.curve
	if kind := e.kind(j); kind != nil {
		kind.Learn(curve, j.n)
		curve = kind.Extend(curve).Sublinear()
	}
	if v := e.viewOf(j); v != nil {
		v.Curve = curve
	}
}

// kind returns the shape that a job shares, nil if it shares none.
func (e *engine) kind(j *job) *speedup.Shape {
	if !e.cfg.Info.Kinds || j.App == "" || j.phases != nil {
		return nil
	}
	kind := e.kinds[j.App]
	if kind == nil {
		kind = &speedup.Shape{}
		e.kinds[j.App] = kind
	}
	return kind
}
