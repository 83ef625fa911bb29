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

// Crossing states how far apart the workers of a job are: the outermost level that they
// cross, and how many domains of it they are in. The zero Crossing stands for a job in one
// domain of the innermost level.
type Crossing struct {
	Level   string `json:"level,omitempty"`
	Domains int    `json:"domains,omitempty"`

	// Parts is the number of domains of the innermost level that the workers are in, and
	// Most the largest number of workers in one. Workers in one domain share resources
	// that others have to themselves. 0 means unknown.
	Parts int `json:"parts,omitempty"`
	Most  int `json:"most,omitempty"`
}

// Outer returns the crossing with Parts and Most set to 0: only the outermost level counts.
func (c Crossing) Outer() Crossing { return Crossing{Level: c.Level, Domains: c.Domains} }

// vague reports whether it is unknown how workers are placed inside the domains.
func (c Crossing) vague() bool { return c.Domains > 1 && c.Parts == 0 }

// same reports whether two crossings are equal, as far as known.
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

// Sensitivity holds the measurements of how the time of a step depends on where the workers
// are. The zero Sensitivity has none.
type Sensitivity struct {
	// Tries counts the tries of a kind's jobs; see Try.
	Tries int `json:"tries,omitempty"`

	Points []Point `json:"points,omitempty"`
}

// pointsLimit bounds the points of one job or kind; the oldest are dropped first.
const pointsLimit = 128

// Learn adds a measured time, or replaces the time of the same size and crossing.
// Impossible times are ignored.
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

// time returns the time of a step at a size and crossing. For a vague crossing, it is the
// geometric mean of all times with the same outermost level and number of domains.
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

// Outermost returns the points without Parts and Most. Points that differ only in these
// become one, with the geometric mean of their times.
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

// measured returns the time of a step at crossing to, as a multiple of that at from, if
// both were measured at exactly this size.
func (s *Sensitivity) measured(size int, from, to Crossing) (float64, bool) {
	t0, ok0 := s.time(size, from)
	t1, ok1 := s.time(size, to)
	r := t1 / t0
	return r, ok0 && ok1 && r > 0 && !math.IsInf(r, 1)
}

// Slowdown compares step times at two crossings, for a job of the given size. It returns
// the time at the second crossing as a multiple of the time at the first. The last
// arguments are the sensitivities of the job and of its kind. If the job was measured at
// both crossings with this size, Slowdown returns the measured ratio; otherwise it looks
// for measurements of the kind. If there are none either, it estimates the ratio from all
// measurements. It returns 1 and false if no measurement compares the two levels.
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

// EnoughTries is the number of tries after which the jobs of a kind are no longer placed in
// unmeasured ways just to measure them.
const EnoughTries = 512

// Bounds of trying placements out.
const (
	// curiosity is the part by which an unmeasured placement is assumed to be faster. It
	// is too small to justify a move back before the placement was measured.
	curiosity = 0.048

	harmful     = 1.15 // a job whose steps are slower by this factor with workers further apart does not try
	alarm       = 1.5  // the same for times at two sizes, which differ anyway
	alarms      = 4    // a kind stops trying after this many jobs that are slower by alarm
	enoughOfJob = 22   // number of a job's times after which it stops trying
)

// Hopeful is like Slowdown, but encourages jobs to try unmeasured crossings. It is for
// choices that cost a job nothing, such as the place of a new worker. If neither the job
// nor its kind was measured at this size and at crossing to, Hopeful assumes that steps
// there are a little faster than expected (optimism in the face of uncertainty: Lai and
// Robbins, 1985). Otherwise no job would ever try that crossing. Hopeful returns the same
// as Slowdown after enough measured times or tries, and once steps of any size were much
// slower with workers further apart.
func Hopeful(size int, from, to Crossing, of ...*Sensitivity) (ratio float64, known bool) {
	r, known := Slowdown(size, from, to, of...)
	if from.same(to) || !worthTrying(size, to, of) {
		return r, known
	}
	if !known {
		if r, _, known = trend(size, from, to, of); !known {
			return 1, false
		}
		r = max(r, 1) // the two levels were never compared
	}
	return r * (1 - curiosity), true
}

func worthTrying(size int, to Crossing, of []*Sensitivity) bool {
	if to.vague() {
		return false // Nomad chooses the placement that would be measured
	}
	for i, s := range of {
		_, measured := s.time(size, to)
		if measured || s.sensitive() || s.Tries >= EnoughTries || i == 0 && len(s.Points) >= enoughOfJob {
			return false
		}
	}
	return true
}

// Try returns how many tries a measured time of a job adds to the count of its kind. The
// receiver holds the job's earlier times. A time counts as one try if the workers are in
// several domains, and neither the job nor its kind was measured at this crossing and size
// before. The first step time of a job that is alarmingly long, compared with another of
// its times, counts as EnoughTries/alarms tries. So several slow jobs end the trying of a
// kind. One slow job does not end it, because it may be slow for another reason.
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

// alarms reports whether a new time is alarming compared with an earlier time at another
// size, or the earlier time compared with the new one.
func (s *Sensitivity) alarms(p Point) bool {
	return slices.ContainsFunc(s.Points, func(q Point) bool { return alarming(p, q) || alarming(q, p) })
}

// alarming reports whether a time is so much longer than another time that the placement is
// the likely cause. The other time must be of several workers that are closer together, at
// a size from half to twice as large. Steps of fewer workers may take longer in proportion.
// This comparison is for jobs that were measured only once at each size; sensitive compares
// times at the same size.
func alarming(p, than Point) bool {
	fewer := max(1, float64(than.Size)/float64(p.Size))
	return p.Size != than.Size && than.Size > 1 && p.Size <= 2*than.Size && than.Size <= 2*p.Size &&
		p.apart(than.Crossing) && p.StepTime > alarm*fewer*than.StepTime
}

// sensitive reports whether steps of one size were much slower with workers further apart.
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

// apart reports whether workers are further apart than at another crossing. For two levels
// outside of nodes it returns true either way: only the topology knows which is the outer
// one.
func (c Crossing) apart(than Crossing) bool {
	if c.Level == than.Level {
		return max(c.Parts, c.Domains) > max(than.Parts, than.Domains)
	}
	a, b := reach(c.Level), reach(than.Level)
	return a > b || a == b && a == reachOutside
}

const reachOutside = 3 // of racks and the like

// reach orders levels as far as their configured names show.
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

// Share adds the times of another run of the kind, for each size at which the run was
// measured at several crossings. Two runs may differ in speed, so the added times are
// scaled to match at the crossings that both runs have. If both have a time for one
// crossing, the geometric mean counts.
func (s *Sensitivity) Share(of *Sensitivity) {
	for run := range of.BySize() {
		s.share(run)
	}
}

// BySize iterates over groups of points with the same size. The groups are in the order of
// their first points.
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

// share adds a run's times at one size.
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

// Scale returns the factor by which to multiply the step times of a run, so that they can
// be compared with known times of the same size. It is the geometric mean of known time /
// run time, over all crossings that have both. If no time is known, the factor makes the
// fastest time of the run 1. The result is not ok if known and run share no crossing, or if
// the run contains only one time.
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

// Sorted returns the points ordered by size and, within one size, from fast to slow.
func (s *Sensitivity) Sorted() []Point {
	return slices.SortedFunc(slices.Values(s.Points), func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.StepTime, b.StepTime))
	})
}
