// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// firstSteps is how many steps at a size make its first measurement.
const firstSteps = 3

// measured is what was learned of a job's step times as it ran.
type measured struct {
	sizes []sample // by size
	curve speedup.Curve
}

type sample struct {
	size     int
	crossing migrate.Crossing
	steps    float64 // made at this size
	used     float64 // steps at the time the curve was made
	step     float64 // true seconds per step, as last seen
	normal   float64 // standard normal draw that this size's error follows
}

// at returns the sample of a size, making it when there is none.
func (m *measured) at(size int, j *job, seed uint64) *sample {
	i, found := slices.BinarySearchFunc(m.sizes, size, func(s sample, n int) int {
		return cmp.Or(s.size-n, strings.Compare(s.crossing.Level, j.crossing.Level), s.crossing.Domains-j.crossing.Domains)
	})
	if !found {
		id := j.ID
		if j.crossing.Domains > 0 {
			id += " " + j.crossing.Level + strconv.Itoa(j.crossing.Domains)
		}
		m.sizes = slices.Insert(m.sizes, i, sample{size: size, crossing: j.crossing, normal: draw(seed, id, size)})
	}
	return &m.sizes[i]
}

// draw is a standard normal number that depends on nothing but its arguments,
// so that a policy which runs a job at other sizes does not change what
// another measurement shows.
func draw(seed uint64, id string, size int) float64 {
	h := fnv.New64a()
	h.Write([]byte(id)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), uint64(size))).NormFloat64()
}

// observe takes steps made at the present size in, and reports whether the
// curve changed. It changes when a size is measured for the first time and
// each time the number of steps at a size has doubled; what would change
// between is noise.
func (j *job) observe(steps, noise float64, seed uint64) (first, changed bool) {
	s := j.seen.at(j.n, j, seed)
	s.steps += steps
	s.step = j.step
	// The margin forgives rounding: time late in a long trace is only known
	// to some nanoseconds, which is a part of a short step.
	if s.steps < firstSteps-0.01 || s.steps < 2*s.used {
		return false, false
	}
	first = s.used == 0
	s.used = s.steps
	points := make([]speedup.Point, 0, len(j.seen.sizes))
	for _, s := range j.seen.sizes {
		if s.used == 0 {
			continue
		}
		p := speedup.Point{
			Size: s.size, StepTime: s.step * s.wrong(noise),
			Samples: int(min(s.used, 1e9)), Spread: noise * s.step,
		}
		// A policy knows sizes alone: that of now where the job is now, others as
		// they were with the workers closest together.
		if last := len(points) - 1; last >= 0 && points[last].Size == s.size {
			if s.size == j.n && s.crossing == j.crossing {
				points[last] = p
			}
			continue
		}
		points = append(points, p)
	}
	j.seen.curve = speedup.NewCurve(points...)
	return first, true
}

// wrong is the measured mean over the true one. It is held away from 0: a measured
// time is never negative.
func (s *sample) wrong(noise float64) float64 {
	return max(1+noise*s.normal/math.Sqrt(s.used), 0.05)
}

// measureAt is when the present size will have been measured for the first
// time; +Inf when it was already.
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
			if e.aware() {
				s := j.seen.at(j.n, j, e.cfg.Seed)
				j.learn(s.step * s.wrong(e.cfg.Info.Noise))
			}
		}
	}
}

// learned shows the policy, and jobs of the same kind that are to come, what
// is known of a job's curve.
func (e *engine) learned(j *job) {
	curve := j.seen.curve
	if kind := e.kind(j); kind != nil {
		kind.Learn(curve, j.n)
		curve = kind.Extend(curve)
	}
	if v := e.viewOf(j); v != nil {
		v.Curve = curve
	}
}

// kind is the shape that a job shares, nil if it shares none.
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
