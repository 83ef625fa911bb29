// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
)

// Crossing is how far apart the workers of a job are: the outermost level that
// they cross, and how many domains of it they are in. The zero Crossing is of a
// job in one domain of the innermost level.
type Crossing struct {
	Level   string `json:"level,omitempty"`
	Domains int    `json:"domains,omitempty"`

	// Parts is in how many domains of the innermost level they are, and Most how
	// many of them are in one at most: what workers on few nodes share, others
	// have for themselves. 0 is unknown.
	Parts int `json:"parts,omitempty"`
	Most  int `json:"most,omitempty"`
}

// Outer is the crossing as far as its outermost level goes.
func (c Crossing) Outer() Crossing { return Crossing{Level: c.Level, Domains: c.Domains} }

// vague reports whether it is unknown how workers lie inside the domains.
func (c Crossing) vague() bool { return c.Domains > 1 && c.Parts == 0 }

// same reports whether nothing tells two crossings apart.
func (c Crossing) same(as Crossing) bool {
	return c == as || (c.vague() || as.vague()) && c.Outer() == as.Outer()
}

// Point is the measured time of a step at one size and crossing.
type Point struct {
	Size int `json:"size"` // workers
	Crossing
	StepTime float64 `json:"step_time"` // mean, seconds
}

func (p *Point) valid() bool { return p.Size > 0 && p.StepTime > 0 && !math.IsInf(p.StepTime, 1) }

// Sensitivity is what is known of how the time of a step depends on where the
// workers are. The zero Sensitivity knows nothing.
type Sensitivity struct {
	// Tries counts, of a kind, what its jobs have tried; see Try.
	Tries int `json:"tries,omitempty"`

	Points []Point `json:"points,omitempty"`
}

// pointsLimit bounds how many points are kept of one job or kind; the oldest go first.
const pointsLimit = 128

// Learn takes in a measured time, in place of the one that was known. A time that
// cannot be is passed over.
func (s *Sensitivity) Learn(p Point) {
	if !p.valid() {
		return
	}
	if i := s.find(p.Size, p.Crossing); i >= 0 {
		s.Points[i] = p
		return
	}
	if len(s.Points) >= pointsLimit {
		s.Points = slices.Delete(s.Points, 0, 1)
	}
	s.Points = append(s.Points, p)
}

func (s *Sensitivity) find(size int, c Crossing) int {
	return slices.IndexFunc(s.Points, func(p Point) bool { return p.Size == size && p.Crossing == c })
}

// time is the time of a step at a size, the geometric mean of all that were measured
// there where it is unknown how the workers lie inside the domains.
func (s *Sensitivity) time(size int, c Crossing) (float64, bool) {
	if !c.vague() {
		i := s.find(size, c)
		if i < 0 {
			return 0, false
		}
		return s.Points[i].StepTime, true
	}
	last, sum, n := 0.0, 0.0, 0
	for _, p := range s.Points {
		if p.Size == size && p.Outer() == c {
			last = p.StepTime
			sum += math.Log(last)
			n++
		}
	}
	if n < 2 {
		return last, n > 0
	}
	return math.Exp(sum / float64(n)), true
}

// Outermost is what was measured by the outermost level that was crossed alone: the
// geometric mean of the times that differ by what is inside it.
func (s *Sensitivity) Outermost() []Point {
	var out []Point
	for _, p := range s.Points {
		p.Crossing = p.Outer()
		if t, ok := s.time(p.Size, p.Crossing); ok && !slices.ContainsFunc(out, func(q Point) bool { return q.Size == p.Size && q.Crossing == p.Crossing }) {
			p.StepTime = t
			out = append(out, p)
		}
	}
	return out
}

// measured is the time of a step at one crossing as a multiple of that at another,
// as it was measured at this very size.
func (s *Sensitivity) measured(size int, from, to Crossing) (float64, bool) {
	t0, ok0 := s.time(size, from)
	t1, ok1 := s.time(size, to)
	r := t1 / t0
	return r, ok0 && ok1 && r > 0 && !math.IsInf(r, 1)
}

// Slowdown is the time of a step at one crossing as a multiple of that at another:
// that of the first that was measured at this very size, of a job and then of its
// kind, or else what all that was measured lets expect. known is false, and the
// slowdown 1, where nothing compares the two.
func Slowdown(size int, from, to Crossing, of ...*Sensitivity) (ratio float64, known bool) {
	if from.same(to) {
		return 1, true
	}
	for _, s := range of {
		if r, ok := s.measured(size, from, to); ok {
			return r, true
		}
	}
	if r, certain, _ := trend(size, from, to, of); certain {
		return r, true
	}
	return 1, false
}

// EnoughTries is after how many tries a kind tries no more.
const EnoughTries = 512

// Bounds of what is tried out.
const (
	// curiosity is how much faster it is taken to be where it was not measured: so
	// little that what is tried is not worth a move back before it was measured.
	curiosity = 0.048

	harmful     = 1.15 // a job that is so much slower further apart is not tried there
	alarm       = 1.5  // the same of times at two sizes, which differ anyway
	alarms      = 4    // jobs of a kind that are so much slower, after which it tries no more
	enoughOfJob = 22   // times of a job after which it tries no more
)

// Hopeful is Slowdown for a choice that costs the job nothing, such as where a new
// worker goes: where neither it nor its kind was measured at this size it is taken to
// be a little faster than expected, as else nobody would find out (optimism in the
// face of uncertainty: Lai and Robbins, 1985). That ends: with enough times or tries,
// and with the first that is much slower further apart, at any size. The
// sensitivities are those of the job and of its kind.
func Hopeful(size int, from, to Crossing, of ...*Sensitivity) (ratio float64, known bool) {
	r, known := Slowdown(size, from, to, of...)
	if from.same(to) || !worthTrying(size, to, of) {
		return r, known
	}
	if !known {
		if r, _, known = trend(size, from, to, of); !known {
			return 1, false
		}
		r = max(r, 1) // no level was compared with that one
	}
	return r * (1 - curiosity), true
}

func worthTrying(size int, to Crossing, of []*Sensitivity) bool {
	if to.vague() {
		return false // Nomad decides what would be measured
	}
	for i, s := range of {
		_, measured := s.time(size, to)
		if measured || s.sensitive() || s.Tries >= EnoughTries || i == 0 && len(s.Points) >= enoughOfJob {
			return false
		}
	}
	return true
}

// Try is how many tries of its kind a time is that a job was measured with: one where
// it is further apart than in one domain and new to both, whatever brought it there,
// and a share of all that there are with the first that is alarming, or shows that one
// before was: one job may have been slowed by something else. s is what the job knew
// before.
func (s *Sensitivity) Try(p Point, kind *Sensitivity) int {
	switch {
	case s.find(p.Size, p.Crossing) >= 0:
		return 0
	case s.alarms(p) && !slices.ContainsFunc(s.Points, s.alarms):
		return EnoughTries / alarms
	case p.Level == "" || p.vague() || kind.find(p.Size, p.Crossing) >= 0:
		return 0
	}
	return 1
}

// alarms reports whether a time, and one at another size, are such that trying has to
// end.
func (s *Sensitivity) alarms(p Point) bool {
	return slices.ContainsFunc(s.Points, func(q Point) bool { return alarming(p, q) || alarming(q, p) })
}

// alarming reports whether a time is so much longer than one of several workers at a
// size half to twice as large, less far apart, that the place is likely to be why.
// Steps of fewer workers may take longer in proportion. A job that is at each size once
// shows nothing better; for times of one size see sensitive.
func alarming(p, than Point) bool {
	fewer := max(1, float64(than.Size)/float64(p.Size))
	return p.Size != than.Size && than.Size > 1 && p.Size <= 2*than.Size && than.Size <= 2*p.Size &&
		p.apart(than.Crossing) && p.StepTime > alarm*fewer*than.StepTime
}

// sensitive reports whether steps were much slower with workers further apart.
func (s *Sensitivity) sensitive() bool {
	for _, p := range s.Points {
		for _, q := range s.Points {
			if p.Size == q.Size && p.apart(q.Crossing) && p.StepTime > harmful*q.StepTime {
				return true
			}
		}
	}
	return false
}

// apart reports whether workers are further apart than at another crossing. Of two
// levels outside of nodes either may be the outer one: that is the topology's to know.
func (c Crossing) apart(than Crossing) bool {
	if c.Level == than.Level {
		return max(c.Parts, c.Domains) > max(than.Parts, than.Domains)
	}
	a, b := reach(c.Level), reach(than.Level)
	return a > b || a == b && a == reachOutside
}

const reachOutside = 3 // of racks and the like

// reach orders levels as far as their names, those of the configuration, do.
func reach(level string) int {
	switch {
	case level == "":
		return 0
	case strings.HasPrefix(level, "device."):
		return 1
	case level == "node":
		return 2
	}
	return reachOutside
}

// Share takes in what another run of the kind showed, of each size at which it was
// measured at several crossings. Times of different runs do not compare, their
// ratios do: the run's are scaled by what both know, and the mean of both counts.
func (s *Sensitivity) Share(of *Sensitivity) {
	for run := range of.BySize() {
		s.share(run)
	}
}

// BySize are the points of each size, in the order of their first ones.
func (s *Sensitivity) BySize() iter.Seq[[]Point] {
	return func(yield func([]Point) bool) {
		for i, p := range s.Points {
			first := !slices.ContainsFunc(s.Points[:i], func(q Point) bool { return q.Size == p.Size })
			if first && !yield(s.of(p.Size)) {
				return
			}
		}
	}
}

func (s *Sensitivity) of(size int) []Point {
	var out []Point
	for _, p := range s.Points {
		if p.Size == size {
			out = append(out, p)
		}
	}
	return out
}

// share takes in a run's times at one size.
func (s *Sensitivity) share(run []Point) {
	scale, ok := Scale(s.of(run[0].Size), run)
	if !ok {
		return
	}
	for _, p := range run {
		p.StepTime *= scale
		if i := s.find(p.Size, p.Crossing); i >= 0 {
			p.StepTime = math.Sqrt(p.StepTime * s.Points[i].StepTime)
		}
		s.Learn(p)
	}
}

// Scale is what the times of a run have to be multiplied by to compare with known
// ones, all of one size: the geometric mean over the crossings that both were measured
// at. Where none is known yet the fastest becomes 1. ok is false where nothing tells
// how they compare, and of a single time: it is no ratio.
func Scale(known, run []Point) (scale float64, ok bool) {
	if len(run) < 2 {
		return 0, false
	}
	fastest, sum, common := math.Inf(1), 0.0, 0
	for _, q := range run {
		fastest = min(fastest, q.StepTime)
		for _, p := range known {
			if p.Crossing == q.Crossing {
				sum += math.Log(p.StepTime / q.StepTime)
				common++
			}
		}
	}
	if len(known) == 0 {
		return 1 / fastest, true
	}
	return math.Exp(sum / float64(max(1, common))), common > 0
}

// Sorted are the points by size, and those of one size from fast to slow.
func (s *Sensitivity) Sorted() []Point {
	return slices.SortedFunc(slices.Values(s.Points), func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.StepTime, b.StepTime))
	})
}
