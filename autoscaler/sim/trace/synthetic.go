// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// Synthetic describes a generated workload. A field of 0 selects the default in the
// field's comment.
type Synthetic struct {
	Jobs int    // 160
	GPUs int    // of the cluster it is meant for; sets the arrival rate. 64
	Seed uint64 // same seed, same trace

	// Load is the work of the jobs, each on one GPU, divided by the cluster's capacity.
	// With 1, the cluster is just busy if no GPU time is wasted. 0 means 0.8.
	Load float64

	// Deadlines is the share of jobs with a deadline, between 1.5 and 4 times
	// their length at their preferred size.
	Deadlines float64

	// Gangs generates the workload of a cluster that trains language models: a few gangs of
	// 64 to 512 GPUs hold nearly all of the GPU time, and nearly all other jobs are short
	// and small.
	Gangs bool

	// Similar, if above 0, generates jobs of one GPU that do not scale. It is the standard
	// deviation of the logarithm of their lengths, whose median is a third of an hour. Real
	// clusters have bursts of such jobs.
	Similar float64

	// Tenants is how many tenants the jobs belong to. 0 is 1.
	Tenants int
}

// family is a class of jobs that scale alike. The step time on n workers is compute/n +
// sync·(n-1)/n + hop·log2(n) seconds: work that divides, a ring allreduce, and latency per
// doubling. The numbers are ours. Like measured profiles in the literature, the families
// range from nearly linear to one that gets slower beyond a few GPUs.
type family struct {
	name               string
	share              float64 // of all jobs
	compute, sync, hop float64 // seconds
	hours              float64 // median length on one GPU
	sigma              float64 // of the logarithm of the length
	most               int     // largest size
	least              int     // exponent of the least size, which is a power of two
}

var families = []family{
	{"tiny-mlp", 0.30, 0.02, 0.010, 0.0040, 0.06, 0.8, 4, 0},
	{"small-cnn", 0.30, 0.30, 0.030, 0.0060, 0.7, 1.0, 16, 0},
	{"speech-rnn", 0.18, 1.20, 0.160, 0.0200, 2.2, 0.9, 32, 0},
	{"encoder", 0.14, 2.50, 0.180, 0.0150, 5.0, 0.9, 32, 0},
	{"large-cnn", 0.08, 4.00, 0.080, 0.0100, 26, 0.8, 64, 0},
}

// gangs lists the families of a workload with large gangs. It resembles the Kalos cluster
// of the Acme traces, but the numbers are not taken from them.
var gangs = []family{
	{"evaluation", 0.93, 0.50, 0.020, 0.0040, 0.4, 1.2, 8, 0},
	{"fine-tuning", 0.04, 8.00, 0.050, 0.0040, 60, 1.0, 64, 3},
	{"pre-training", 0.03, 600, 0.300, 0.0100, 8000, 0.8, 1024, 6},
}

// families returns the families of the workload.
func (s Synthetic) families() []family {
	switch {
	case s.Similar > 0:
		return []family{{name: "similar", share: 1, compute: 1, hours: 1.0 / 3, sigma: s.Similar, most: 1}}
	case s.Gangs:
		return gangs
	}
	return families
}

func (f family) curve() *Curve {
	times := make([]float64, f.most)
	for i := range times {
		n := float64(i + 1)
		times[i] = f.compute/n + f.sync*(n-1)/n + f.hop*math.Log2(n)
	}
	c, err := NewCurve(times)
	if err != nil {
		panic("trace: built-in curve: " + err.Error()) // the table above is wrong
	}
	return c
}

// Trace generates the workload. Arrivals are a Poisson process, twice as frequent in the
// first half of each eight hours as in the second. Lengths are log-normal, and the sizes
// that users ask for are powers of two.
func (s Synthetic) Trace() *Trace {
	if s.Jobs == 0 {
		s.Jobs = 160
	}
	if s.GPUs == 0 {
		s.GPUs = 64
	}
	if s.Load == 0 {
		s.Load = 0.8
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x6b6f6c6f)) // the second word is "kolo"
	of := s.families()
	curves := make([]*Curve, len(of))
	mean := 0.0 // GPU-seconds per job
	for i, k := range of {
		curves[i] = k.curve()
		mean += k.share * k.hours * 3600 * math.Exp(k.sigma*k.sigma/2)
	}
	gap := mean / (float64(s.GPUs) * s.Load)

	t := &Trace{Name: fmt.Sprintf("synthetic-%d", s.Jobs), Jobs: make([]Job, 0, s.Jobs)}
	now := 0.0
	for i := range s.Jobs {
		pace := 1.5
		if math.Mod(now, 8*3600) < 4*3600 {
			pace = 0.75
		}
		now += rng.ExpFloat64() * gap * pace
		at := pickFamily(of, rng.Float64())
		k := of[at]
		seconds := k.hours * 3600 * math.Exp(k.sigma*rng.NormFloat64())
		j := Job{
			ID: fmt.Sprintf("%s-%0*d", k.name, digits(s.Jobs), i), App: k.name,
			Weight: 1, PerWorker: 1, Preemptible: true, Min: 1 << k.least, Max: k.most,
			Submit: now, Curve: curves[at],
			Steps: math.Max(1, math.Round(seconds/curves[at].StepTime(1))),
		}
		// Users ask for a size that they believe to be efficient.
		j.Preferred = 1 << (k.least + rng.IntN(digits2(k.most)+1-k.least))
		if s.Tenants > 1 {
			j.Tenant = fmt.Sprintf("team-%d", rng.IntN(s.Tenants))
		}
		if rng.Float64() < s.Deadlines {
			j.Deadline = now + j.Steps*j.StepTime(j.Preferred)*(1.5+2.5*rng.Float64())
		}
		t.Jobs = append(t.Jobs, j)
	}
	t.shift()
	return t
}

func pickFamily(families []family, x float64) int {
	for i, k := range families {
		if x < k.share {
			return i
		}
		x -= k.share
	}
	return len(families) - 1
}

// digits returns how many decimal digits the numbers below n need.
func digits(n int) int { return len(strconv.Itoa(max(n-1, 0))) }

// digits2 returns the exponent of the largest power of two that is at most half of n, so
// that a random size leaves room to grow.
func digits2(n int) int {
	e := 0
	for 2<<(e+1) <= n {
		e++
	}
	return e
}
