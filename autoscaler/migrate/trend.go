// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"math"
	"slices"
)

// Parameters of the regression.
const (
	ridge     = 0.3 // how strongly it holds to there being no difference
	mostTerms = 10  // levels that were crossed, and two more
)

// trend is the slowdown from one crossing to another as far as what was measured of
// a job and its kind, at any size, lets expect it: the logarithm of the time of a
// step is taken to be a sum of one term for the level that is crossed, one in
// proportion to the logarithm of the number of parts, and one in proportion to that
// of the workers in the largest part. It is fitted to the differences among times of one
// size by ridge regression (Hoerl and Kennard, Technometrics 1970), in which sizes
// count less the further off they are. known is false where nothing was measured of
// one of the levels, or no two times at one size.
func trend(size int, from, to Crossing, of []*Sensitivity) (ratio float64, known bool) {
	t := terms{}
	for _, s := range of {
		for i := range s.Points {
			t.add(s.Points[i].Level)
		}
	}
	if len(t.levels)+2 > mostTerms || t.of(from.Level) < 0 || t.of(to.Level) < 0 {
		return 1, false
	}
	e := equations{terms: t}
	for _, s := range of {
		e.take(s, size)
	}
	if e.groups == 0 {
		return 1, false
	}
	by := e.solve()
	a, b := t.row(size, from), t.row(size, to)
	sum := 0.0
	for k := range t.count() {
		sum += by[k] * (b[k] - a[k])
	}
	return math.Exp(sum), true
}

// terms are what the time of a step is taken to depend on.
type terms struct{ levels []string }

func (t *terms) add(level string) {
	if t.of(level) < 0 {
		t.levels = append(t.levels, level)
	}
}

func (t *terms) of(level string) int { return slices.Index(t.levels, level) }
func (t *terms) count() int          { return len(t.levels) + 2 }

// row is a crossing in these terms. Of one of which it is unknown how the workers lie
// inside its domains they are taken to lie in as few parts as can be.
func (t *terms) row(size int, c Crossing) (x [mostTerms]float64) {
	x[t.of(c.Level)] = 1
	if c.Domains < 2 {
		return x
	}
	parts, most := c.Parts, c.Most
	if c.vague() {
		parts, most = c.Domains, (size+c.Domains-1)/c.Domains
	}
	x[len(t.levels)] = math.Log(float64(max(1, parts)))
	x[len(t.levels)+1] = math.Log(float64(max(1, most)))
	return x
}

// row is one measured time in these terms.
type row struct {
	size int
	x    [mostTerms]float64
	y    float64 // its logarithm
}

// equations are the normal equations of the regression.
type equations struct {
	terms
	left   [mostTerms][mostTerms]float64
	right  [mostTerms]float64
	groups int
}

// take takes in what is known of one job or kind. Only times of one size compare: what
// counts is how they differ from their mean.
func (e *equations) take(s *Sensitivity, size int) {
	var few [32]row // no allocation for as many times
	rows := few[:0]
	for i := range s.Points {
		p := &s.Points[i]
		rows = append(rows, row{size: p.Size, x: e.row(p.Size, p.Crossing), y: math.Log(p.StepTime)})
	}
	for i := range rows {
		at := rows[i].size
		if !slices.ContainsFunc(rows[:i], func(r row) bool { return r.size == at }) {
			e.takeSize(rows[i:], at, size)
		}
	}
}

func (e *equations) takeSize(rows []row, at, size int) {
	dim, n, mean := e.count(), 0., row{}
	for i := range rows {
		if r := &rows[i]; r.size == at {
			n++
			mean.y += r.y
			for k := range dim {
				mean.x[k] += r.x[k]
			}
		}
	}
	if n < 2 {
		return
	}
	e.groups++
	off := math.Log2(float64(at) / float64(size))
	weight := 1 / (1 + off*off)
	for i := range rows {
		r := &rows[i]
		if r.size != at {
			continue
		}
		y := r.y - mean.y/n
		var x [mostTerms]float64
		for k := range dim {
			x[k] = r.x[k] - mean.x[k]/n
		}
		for k := range dim {
			e.right[k] += weight * x[k] * y
			for l := range dim {
				e.left[k][l] += weight * x[k] * x[l]
			}
		}
	}
}

// solve solves the equations by elimination: with the ridge they are positive
// definite, and need no pivots.
func (e *equations) solve() (by [mostTerms]float64) {
	dim, a := e.count(), e.left
	by = e.right
	for k := range dim {
		a[k][k] += ridge
	}
	for k := range dim {
		for i := k + 1; i < dim; i++ {
			f := a[i][k] / a[k][k]
			for l := k; l < dim; l++ {
				a[i][l] -= f * a[k][l]
			}
			by[i] -= f * by[k]
		}
	}
	for k := dim - 1; k >= 0; k-- {
		for l := k + 1; l < dim; l++ {
			by[k] -= a[k][l] * by[l]
		}
		by[k] /= a[k][k]
	}
	return by
}
