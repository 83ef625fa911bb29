// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

const (
	// enough is the smallest number of complete jobs from which lengths are drawn.
	enough = 3

	// unknownSeconds is the shortest length, at its preferred size, of a job of which
	// nothing is known.
	unknownSeconds = 600

	// lengthsKept is how many of the newest lengths count. More lengths cost time and do
	// not improve forecasts.
	lengthsKept = 64

	// certain is the largest probability for which a length is extrapolated. Without this
	// limit, a few draws would be years.
	certain = 0.95
)

// Length holds what is known of the length of a job from other jobs. If the job declares
// its work (policy.Job.Remaining), that has precedence; then Kind, then Pool. If nothing is
// known, the job is expected to run for as long again as it has run.
type Length struct {
	// Kind has the work of complete jobs of the same kind, in seconds on one worker, newest
	// last.
	Kind []float64

	// Pool has how long complete jobs of the pool took, in seconds at their preferred size,
	// newest last.
	Pool []float64
}

// draw returns the remaining work of a job, in seconds on one worker. guessed is true if
// nothing is known of its length.
func (l Length) draw(j *policy.Job, rng *rand.Rand) (work float64, guessed bool) {
	one := j.Curve.Time(1)
	preferred := j.Curve.Speedup(max(1, j.Preferred))
	ran := j.RunTime * preferred // as far as is known
	if j.Curve.Measured() && j.Done > 0 {
		ran = j.Done * one
	}
	u := rng.Float64()
	switch {
	case declared(j):
		return j.Remaining * one, false
	case len(l.Kind) >= enough:
		return longer(l.Kind, ran, u), false
	case len(l.Pool) >= enough:
		return longer(l.Pool, ran/preferred, u) * preferred, false
	}
	return again(max(ran, unknownSeconds*preferred), u), true
}

// declared reports whether the remaining work of a job is known.
func declared(j *policy.Job) bool { return j.Remaining > 0 && j.Curve.Measured() }

// longer draws how much longer than ran a job takes, from the lengths of other jobs that
// took longer than ran. u is a random number from 0 to 1.
func longer(others []float64, ran, u float64) float64 {
	others = others[max(0, len(others)-lengthsKept):]
	rest := slices.DeleteFunc(slices.Clone(others), func(x float64) bool { return !(x > ran) })
	if len(rest) == 0 {
		return again(ran, u)
	}
	slices.Sort(rest)
	// The length of the next job is as likely to be between two neighbours as below or
	// above all of them.
	at := u * float64(len(rest)+1)
	k := int(at)
	f := at - float64(k)
	switch {
	case k == 0:
		return (rest[0] - ran) * (0.5 + f/2)
	case k >= len(rest):
		return rest[len(rest)-1] - ran + again(rest[len(rest)-1], f/2)
	}
	return rest[k-1] + f*(rest[k]-rest[k-1]) - ran
}

// again draws how much longer a job takes that has run for the time ran. The median is this
// same time (Harchol-Balter and Downey, SIGMETRICS'96).
func again(ran, u float64) float64 {
	return max(1, ran) * (1/(1-math.Min(u, certain)) - 1)
}
