// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package migrate

import (
	"math"
	"slices"
)

// Parameters of the regression.
const (
	ridge      = 0.3 // how strongly it prefers no difference
	mostLevels = 10  // a topology has at most 8; one for jobs that cross none, and one that was removed
	mostTerms  = mostLevels + 2
)

// trend returns the slowdown from one crossing to another that the measurements of a job
// and its kind, at any size, suggest.
//
// The model of the logarithm of a step's time has three terms: one for the level that is
// crossed, one in proportion to the logarithm of the number of parts, and one in proportion
// to that of the workers in the largest part. It is fitted to the differences among times
// of one size by ridge regression (Hoerl and Kennard, Technometrics 1970). Sizes count less
// the further away they are.
//
// certain is false if no measurements compare the two levels. known is false, and the
// slowdown 1, if the measurements compare no two levels at all.
func trend(size int, from, to Crossing, of []*Sensitivity) (ratio float64, certain, known bool) {
	e := equations{size: size}
	e.level(from.Level)
	e.level(to.Level)
	for _, s := range of {
		e.take(s)
	}
	if !slices.Contains(e.seen[:], true) {
		return 1, false, false
	}
	by := e.solve()
	a, b := e.row(size, from), e.row(size, to)
	sum := 0.0
	for k := range e.count() {
		sum += by[k] * (b[k] - a[k])
	}
	r := math.Exp(sum)
	if !(r > 0) || math.IsInf(r, 1) {
		return 1, false, false
	}
	return r, e.compared(from.Level, to.Level), true
}

// equations are the normal equations of the regression for one size.
type equations struct {
	size   int
	levels []string
	group  [mostLevels]int // levels that were compared, directly or through others, have the same one
	seen   [mostLevels]bool
	left   [mostTerms][mostTerms]float64
	right  [mostTerms]float64
}

// row is one measured time in terms of the model.
type row struct {
	size, level int
	x           [mostTerms]float64 // the first two of the numbers of workers, the others of levels
	y           float64            // its logarithm
}

// level returns the number of a level, or -1 if there are too many. A topology has fewer,
// but jobs remember levels of an earlier one.
func (e *equations) level(name string) int {
	i := slices.Index(e.levels, name)
	if i < 0 && len(e.levels) < mostLevels {
		i = len(e.levels)
		e.group[i] = i
		e.levels = append(e.levels, name)
	}
	return i
}

// compared reports whether times of the two levels were measured at one size, directly or
// through other levels.
func (e *equations) compared(a, b string) bool {
	i, j := e.level(a), e.level(b)
	return e.seen[i] && e.seen[j] && e.group[i] == e.group[j]
}

func (e *equations) count() int { return len(e.levels) + 2 }

// row returns the terms of a crossing. For a vague one, it assumes as few parts as
// possible.
func (e *equations) row(size int, c Crossing) (x [mostTerms]float64) {
	x[2+e.level(c.Level)] = 1
	if c.Domains < 2 {
		return x
	}
	parts, most := c.Parts, c.Most
	if c.vague() {
		parts, most = c.Domains, (size+c.Domains-1)/c.Domains
	}
	x[0] = math.Log(float64(max(1, parts)))
	x[1] = math.Log(float64(max(1, most)))
	return x
}

// take adds the measurements of one job or kind. Only times of one size compare, so each
// counts by its difference from the mean.
func (e *equations) take(s *Sensitivity) {
	var few [pointsLimit]row // no allocation
	rows := few[:0]
	for i := range s.Points {
		p := &s.Points[i]
		if level := e.level(p.Level); level >= 0 && p.valid() {
			rows = append(rows, row{size: p.Size, level: level, x: e.row(p.Size, p.Crossing), y: math.Log(p.StepTime)})
		}
	}
	for i := range rows {
		at := rows[i].size
		if !slices.ContainsFunc(rows[:i], func(r row) bool { return r.size == at }) {
			e.takeSize(rows[i:])
		}
	}
}

// takeSize adds the rows with the size of the first one.
func (e *equations) takeSize(rows []row) {
	at, n, mean := rows[0].size, 0., row{}
	for i := range rows {
		if r := &rows[i]; r.size == at {
			n++
			mean.y += r.y
			for k := range e.count() {
				mean.x[k] += r.x[k]
			}
		}
	}
	if n < 2 {
		return
	}
	off := math.Log2(float64(at) / float64(e.size))
	weight := 1 / (1 + off*off)
	for i := range rows {
		r := &rows[i]
		if r.size != at {
			continue
		}
		e.join(rows[0].level, r.level)
		y := r.y - mean.y/n
		var x [mostTerms]float64
		for k := range e.count() {
			x[k] = r.x[k] - mean.x[k]/n
		}
		for k := range e.count() {
			e.right[k] += weight * x[k] * y
			for l := range e.count() {
				e.left[k][l] += weight * x[k] * x[l]
			}
		}
	}
}

// join records that times of two levels were compared.
func (e *equations) join(a, b int) {
	e.seen[a], e.seen[b] = true, true
	of := e.group[b]
	for i := range e.levels {
		if e.group[i] == of {
			e.group[i] = e.group[a]
		}
	}
}

// solve solves the equations by elimination. With the ridge they are positive definite,
// so it needs no pivots.
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
