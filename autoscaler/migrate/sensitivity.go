// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"cmp"
	"math"
	"slices"
)

// Crossing is how far apart the workers of a job are: the outermost level that
// they cross, and how many domains of it they are in. The zero Crossing is of a
// job in one domain of the innermost level.
type Crossing struct {
	Level   string `json:"level,omitempty"`
	Domains int    `json:"domains,omitempty"`
}

// Point is the measured time of a step at one size and crossing.
type Point struct {
	Size int `json:"size"` // workers
	Crossing
	StepTime float64 `json:"step_time"` // mean, seconds
}

// Sensitivity is what is known of how the time of a step depends on where the
// workers are. The zero Sensitivity knows nothing.
type Sensitivity struct {
	Points []Point `json:"points,omitempty"`
}

// pointsLimit bounds how many points are kept of one job or kind; the oldest go first.
const pointsLimit = 64

// Learn takes in a measured time, in place of the one that was known. A time that
// cannot be is passed over.
func (s *Sensitivity) Learn(p Point) {
	if p.Size < 1 || !(p.StepTime > 0) || math.IsInf(p.StepTime, 1) {
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

// time is the time of a step at a size; where that number of domains was not
// measured, of the nearest number at the same level.
func (s *Sensitivity) time(size int, c Crossing) (float64, bool) {
	best := -1
	apart := func(i int) int {
		d := s.Points[i].Domains - c.Domains
		return max(d, -d)
	}
	for i, p := range s.Points {
		if p.Size == size && p.Level == c.Level && (best < 0 || apart(i) < apart(best)) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	return s.Points[best].StepTime, true
}

// Slowdown is the time of a step at one crossing as a multiple of that at
// another: as measured at this size, or else as the mean over the nearest size
// at which both were measured, on either side. known is false, and the slowdown
// 1, where there is none.
func (s *Sensitivity) Slowdown(size int, from, to Crossing) (ratio float64, known bool) {
	if from == to {
		return 1, true
	}
	if r, ok := s.measured(size, from, to); ok {
		return r, true
	}
	below, above := 0, 0
	for _, p := range s.Points {
		if _, ok := s.measured(p.Size, from, to); !ok {
			continue
		}
		if p.Size < size {
			below = max(below, p.Size)
		} else if above == 0 || p.Size < above {
			above = p.Size
		}
	}
	product, n := 1.0, 0
	for _, near := range []int{below, above} {
		if r, ok := s.measured(near, from, to); ok {
			product *= r
			n++
		}
	}
	if n == 0 {
		return 1, false
	}
	return math.Pow(product, 1/float64(n)), true
}

// measured is the slowdown as it was measured at this very size.
func (s *Sensitivity) measured(size int, from, to Crossing) (float64, bool) {
	t0, ok0 := s.time(size, from)
	t1, ok1 := s.time(size, to)
	return t1 / t0, ok0 && ok1
}

// Slowdown is that of the first that was measured at this very size, of a job and
// then of its kind, or else of the first that knows it from other sizes: what
// crossing costs differs more by size than among jobs of a kind.
func Slowdown(size int, from, to Crossing, of ...*Sensitivity) (ratio float64, known bool) {
	for _, s := range of {
		if r, ok := s.measured(size, from, to); ok {
			return r, true
		}
	}
	for _, s := range of {
		if r, ok := s.Slowdown(size, from, to); ok {
			return r, true
		}
	}
	return 1, false
}

// Share takes in what another run of the kind showed, of each size at which it was
// measured at several crossings. Times of different runs do not compare, their
// ratios do: the run's are scaled by what both know, and the mean of both counts.
func (s *Sensitivity) Share(of *Sensitivity) {
	seen := map[int]bool{}
	for _, p := range of.Points {
		if !seen[p.Size] {
			seen[p.Size] = true
			s.share(of.of(p.Size))
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
	if len(run) < 2 {
		return // one time is no ratio
	}
	sum, common := 0.0, 0
	for _, p := range run {
		if i := s.find(p.Size, p.Crossing); i >= 0 {
			sum += math.Log(s.Points[i].StepTime / p.StepTime)
			common++
		}
	}
	scale := 1 / run[0].StepTime
	if common > 0 {
		scale = math.Exp(sum / float64(common))
	} else if len(s.of(run[0].Size)) > 0 {
		return // nothing tells how these compare to what is known
	}
	for _, p := range run {
		p.StepTime *= scale
		if i := s.find(p.Size, p.Crossing); i >= 0 {
			p.StepTime = math.Sqrt(p.StepTime * s.Points[i].StepTime)
		}
		s.Learn(p)
	}
}

// Sorted are the points by size, and those of one size from fast to slow.
func (s *Sensitivity) Sorted() []Point {
	return slices.SortedFunc(slices.Values(s.Points), func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.StepTime, b.StepTime))
	})
}
