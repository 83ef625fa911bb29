// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package length

import (
	"math"
	"slices"
)

const (
	// Limit is the largest number of services in a Sample. Older ones are dropped, so that a
	// Sample follows a workload that changes.
	Limit = 64

	// KindLimit is the number of services that are remembered for each kind. It is smaller,
	// because there may be many kinds.
	KindLimit = 16

	// Enough is the smallest number of services in a Sample.
	Enough = 3
)

// Origin is the set of jobs that a Sample was learned from.
type Origin string

// The origins, from the most to the least similar jobs.
const (
	Kind      Origin = "kind"
	Namespace Origin = "namespace"
	Pool      Origin = "pool"
)

// memoryless is the standard deviation of the logarithm of an exponential distribution,
// π/√6. At this spread, the remaining work of a job is independent of its attained service.
const memoryless = 1.2825

// leastSpread is the least spread of a Sample: no two jobs are exactly alike.
const leastSpread = 0.1

// quartiles is the distance between the quartiles of a normal distribution, in standard
// deviations.
const quartiles = 1.349

// unlike is the assumed median service, in GPU-seconds, of jobs that are unlike those of a
// Sample.
const unlike = 8000

// leastService and mostService bound the services of a Sample, in GPU-seconds. Others are not
// of real jobs, and could make a Range infinite.
const (
	leastService = 1e-6
	mostService  = 1e15
)

// Sample describes the services of completed jobs by a log-normal distribution. The zero
// Sample describes none.
type Sample struct {
	Origin Origin  `json:"origin"`
	Count  int     `json:"count"`  // of jobs
	Median float64 `json:"median"` // GPU-seconds
	Spread float64 `json:"spread"` // standard deviation of the logarithm
}

// NewSample returns the Sample of the newest services, of which the last is the newest. It
// ignores values that cannot be services of jobs. With fewer than Enough services, the
// Sample is zero. Median and spread are those of the middle half of the services, so that
// a few jobs of another length do not change them.
func NewSample(origin Origin, services []float64) Sample {
	var logs []float64
	for _, x := range services[max(0, len(services)-Limit):] {
		if x >= leastService && x <= mostService {
			logs = append(logs, math.Log(x))
		}
	}
	if len(logs) < Enough {
		return Sample{}
	}
	slices.Sort(logs)
	spread := (quantile(logs, 0.75) - quantile(logs, 0.25)) / quartiles
	return Sample{Origin: origin, Count: len(logs), Median: math.Exp(quantile(logs, 0.5)), Spread: max(leastSpread, spread)}
}

// quantile returns a quantile of values in ascending order.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Left returns how much more service a job of the given attained service is expected to
// need, in GPU-seconds, and how far this is to be trusted, from 0 to 1.
//
// The expectation is the mean residual life. Where lengths are alike, it falls while a job
// runs, as does the Gittins rank, which orders jobs optimally if only the distribution of
// their lengths is known (Aalto, Ayesta and Righter, On the Gittins index in the M/G/1
// queue, 2009; Tiresias, NSDI'19, uses it in discretised form). Where lengths are spread as widely as
// an exponential distribution or wider, the trust is 0: a job that ran long will run long
// still, and least attained service is the better rule. The trust also falls once a job
// has outrun almost all others: it is then probably unlike them.
func (s *Sample) Left(attained float64) (mean, trust float64) {
	if s.Count == 0 || !(s.Spread < memoryless) {
		return 0, 0
	}
	z := math.Inf(-1)
	if attained > 0 {
		z = math.Log(attained/s.Median) / s.Spread
	}
	longer := above(z)
	alike := float64(s.Count) * longer
	alike /= alike + 1/(1+max(0, attained)/unlike)
	if !(alike > 1e-6) {
		return 0, 0
	}
	mean = s.Median*math.Exp(s.Spread*s.Spread/2)*above(z-s.Spread)/longer - attained
	return max(0, mean), alike * (1 - s.Spread*s.Spread/(memoryless*memoryless))
}

// Range returns the first and third quartile of the further service that a job of the given
// attained service needs, in GPU-seconds. It returns zeros if the Sample is zero.
func (s *Sample) Range(attained float64) (low, high float64) {
	if s.Count == 0 {
		return 0, 0
	}
	longer := 1.0
	if attained > 0 {
		longer = above(math.Log(attained/s.Median) / s.Spread)
	}
	at := func(part float64) float64 {
		z := min(math.Sqrt2*math.Erfcinv(2*longer*part), farthest)
		return max(0, s.Median*math.Exp(z*s.Spread)-attained)
	}
	return at(0.75), at(0.25)
}

// farthest is the largest distance from the mean, in standard deviations, at which a
// quantile is computed. Beyond it, probabilities underflow.
const farthest = 8

// Append returns services with one more. It drops the oldest ones if there are more than limit.
func Append(services []float64, service float64, limit int) []float64 {
	return append(services[max(0, len(services)+1-limit):], service)
}

// above returns the probability that a standard normal variable is above z.
func above(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// Best returns the first Sample that is not zero. The arguments are ordered from the most to
// the least similar jobs.
func Best(samples ...Sample) Sample {
	for _, s := range samples {
		if s.Count > 0 {
			return s
		}
	}
	return Sample{}
}
