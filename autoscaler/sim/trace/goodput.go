// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import "slices"

// Goodput describes the progress of a job that adapts its batch size and its gradient
// accumulation to its number of workers. Progress is counted in steps at the initial batch
// size, whatever the batch size is: a step at a larger batch makes the progress of several.
// How many depends on the gradient noise scale, which grows during a training (McCandlish
// et al., 2018; Pollux, OSDI'21, section 3.1).
type Goodput struct {
	Phases []Phase

	initial float64    // batch size of one unit of progress
	configs [][]config // by number of workers: what the job chooses in any phase; nil without statistics
	stats   []noise    // by phase
}

// Phase is a part of a training in which the gradient noise scale stays the same.
type Phase struct {
	End float64 // progress at which the phase ends

	// Curve holds the true seconds per unit of progress, at the batch size and accumulation
	// that the job chooses for each number of workers.
	Curve *Curve

	// Seen is what the job measures of Curve. It differs if the job measures its noise scale
	// wrong.
	Seen *Curve
}

// config is a choice of batch size and accumulation, and the seconds that a step takes with it.
type config struct {
	batch, accum int
	step         float64
}

// noise holds gradient statistics of one phase by batch size, ascending.
type noise struct {
	batch         []int
	sqr, variance []float64 // squared norm of the mean gradient, and variance
}

// at returns the statistics at a batch size, linear between measured sizes.
func (s *noise) at(batch int) (sqr, variance float64) {
	i, found := slices.BinarySearch(s.batch, batch)
	switch {
	case found || i == 0:
		return s.sqr[i], s.variance[i]
	case i == len(s.batch):
		return s.sqr[i-1], s.variance[i-1]
	}
	w := float64(batch-s.batch[i-1]) / float64(s.batch[i]-s.batch[i-1])
	return (1-w)*s.sqr[i-1] + w*s.sqr[i], (1-w)*s.variance[i-1] + w*s.variance[i]
}

// gain returns the progress of one step at a batch size, if the noise scale is wrong by a
// factor; 1 is the truth.
func (g *Goodput) gain(phase, batch int, wrong float64) float64 {
	sqr, variance := g.stats[phase].at(batch)
	variance *= wrong
	return (variance + sqr) / (variance*g.initial/float64(batch) + sqr)
}

// Length returns the progress at which the training is complete.
func (g *Goodput) Length() float64 { return g.Phases[len(g.Phases)-1].End }

// Time returns how long the training takes on n workers, in seconds.
func (g *Goodput) Time(n int) (seconds float64) {
	from := 0.0
	for _, p := range g.Phases {
		seconds += (p.End - from) * p.Curve.StepTime(n)
		from = p.End
	}
	return seconds
}

// Misjudged returns the Goodput of the same job if it measures its gradient noise scale wrong
// by a factor above 0. From the second phase on, the job chooses by the noise scale that it
// measured in the phase before, and progresses according to the true one. It chooses among
// the batch sizes that are best in some phase at the same number of workers. A Goodput
// without gradient statistics, and a factor of 1, change nothing.
func (g *Goodput) Misjudged(wrong float64) *Goodput {
	if wrong == 1 || g.configs == nil {
		return g
	}
	out := *g
	out.Phases = slices.Clone(g.Phases)
	for k := 1; k < len(out.Phases); k++ {
		most := len(g.configs) - 1
		truth, seen := make([]float64, most), make([]float64, most)
		for n := 1; n <= most; n++ {
			best, rate := g.configs[n][0], 0.0
			for _, c := range g.configs[n] {
				if r := g.gain(k-1, c.batch, wrong) / c.step; r > rate {
					best, rate = c, r
				}
			}
			truth[n-1] = best.step / g.gain(k, best.batch, 1)
			seen[n-1] = best.step / g.gain(k, best.batch, wrong)
		}
		out.Phases[k].Curve, out.Phases[k].Seen = curveOf(truth), curveOf(seen)
	}
	return &out
}

// curveOf returns the curve of step times that are known to be valid.
func curveOf(times []float64) *Curve { return &Curve{times: append([]float64{0}, times...)} }
