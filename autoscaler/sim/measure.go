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

// firstSteps is how many steps at a size its first measurement needs.
const firstSteps = 3

// measured has a job's measured step times: by size, in any placement, for policies, and by
// size and placement.
type measured struct {
	sizes  []sample // by size
	curve  speedup.Curve
	placed []sample // by size and crossing, if placement depends on them
}

type sample struct {
	size     int
	crossing migrate.Crossing
	steps    float64 // number of steps made
	used     float64 // steps when the mean in use was computed
	step     float64 // true seconds per step, as last seen
	normal   float64 // standard normal number that determines the error
}

// at returns the sample of a size. It makes one if there is none.
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

// draw returns a standard normal number that depends only on its arguments. So a policy
// that runs a job at other sizes does not change the error of other measurements.
func draw(seed uint64, id string, size int) float64 {
	h := fnv.New64a()
	h.Write([]byte(id)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), uint64(size))).NormFloat64()
}

// observe adds steps made at the present size, and reports whether this is the size's first
// measurement and whether the curve changed. The curve changes at the first measurement of
// a size, and each time its number of steps has doubled. Other changes would be noise.
func (j *job) observe(steps, noise float64, seed uint64) (first, changed bool) {
	s := j.seen.at(j.n, j, seed)
	first, changed = s.take(steps, j.step)
	if !changed {
		return false, false
	}
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
	return first, true
}

// take adds steps with the given time, and reports whether the mean in use changes: after
// firstSteps steps, and each time their number has doubled.
func (s *sample) take(steps, step float64) (first, changed bool) {
	s.steps += steps
	s.step = step
	// The margin is for rounding errors: late in a long trace, time has a precision of
	// some nanoseconds, which matters for short steps.
	if s.steps < firstSteps-0.01 || s.steps < 2*s.used {
		return false, false
	}
	first = s.used == 0
	s.used = s.steps
	return first, true
}

// wrong returns the measured mean divided by the true one. It is at least 0.05, because a
// measured time is never negative.
func (s *sample) wrong(noise float64) float64 {
	return max(1+noise*s.normal/math.Sqrt(s.used), 0.05)
}

// measureAt returns when the present size will have its first measurement, or +Inf if it
// has one.
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

// advance updates one job to the present.
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
			if _, changed := s.take(steps, j.step); changed {
				j.learn(s.step * s.wrong(e.cfg.Info.Noise))
			}
		}
	}
}

// learned updates the curve of a job as the policy sees it, and the shape that future jobs
// of its kind begin with.
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

// kind returns the shape that a job shares, or nil if it shares none.
func (e *engine) kind(j *job) *speedup.Shape {
	if !e.cfg.Info.Kinds || j.App == "" {
		return nil
	}
	kind := e.kinds[j.App]
	if kind == nil {
		kind = &speedup.Shape{}
		e.kinds[j.App] = kind
	}
	return kind
}
