// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package length

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

// logNormal returns so many log-normal services.
func logNormal(n int, median, spread float64) []float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]float64, n)
	for i := range out {
		out[i] = median * math.Exp(spread*rng.NormFloat64())
	}
	return out
}

func TestNewSample(t *testing.T) {
	must.Eq(t, Sample{}, NewSample(Kind, []float64{100, 200}), must.Sprint("too few"))
	must.Eq(t, Sample{}, NewSample(Kind, []float64{100, 200, math.NaN(), math.Inf(1), -1, 0}))
	must.Eq(t, Sample{}, NewSample(Kind, []float64{100, 200, 1e308, 1e-300}), must.Sprint("no services of jobs"))

	s := NewSample(Pool, []float64{100, 100, 100})
	must.Eq(t, Sample{Origin: Pool, Count: 3, Median: 100, Spread: leastSpread}, Sample{s.Origin, s.Count, math.Round(s.Median), s.Spread})

	s = NewSample(Kind, append([]float64{1e9, 1e9}, logNormal(Limit, 1000, 0.5)...))
	must.Eq(t, Limit, s.Count, must.Sprint("the oldest are dropped"))
	must.Between(t, 850, s.Median, 1150)
	must.Between(t, 0.4, s.Spread, 0.65)

	few := append(logNormal(60, 1000, 0.5), 1e6, 1e6, 1e6)
	must.Between(t, 0.4, NewSample(Kind, few).Spread, 0.7, must.Sprint("a few jobs that are much longer"))
}

// TestSample_Left compares jobs of similar lengths with jobs of different lengths.
func TestSample_Left(t *testing.T) {
	alike := NewSample(Kind, logNormal(Limit, 1000, 0.4))
	before := math.Inf(1)
	for _, attained := range []float64{0, 200, 500, 1000, 1500} {
		left, trust := alike.Left(attained)
		must.Less(t, before, left, must.Sprintf("after %v the rest is less than before", attained))
		must.Greater(t, 0.6, trust)
		before = left
	}
	_, trust := alike.Left(20_000)
	must.Less(t, 0.01, trust, must.Sprint("it has outrun all others"))

	unlike := NewSample(Pool, logNormal(Limit, 1000, 2))
	_, trust = unlike.Left(100)
	must.Zero(t, trust)
	_, trust = (&Sample{}).Left(100)
	must.Zero(t, trust)
}

// TestSample_Range compares the quartiles with random services.
func TestSample_Range(t *testing.T) {
	s := Sample{Origin: Kind, Count: 16, Median: 1000, Spread: 0.6}
	rest := []float64{}
	for _, x := range logNormal(40_000, 1000, 0.6) {
		if x > 800 {
			rest = append(rest, x-800)
		}
	}
	low, high := s.Range(800)
	below, above := 0, 0
	for _, x := range rest {
		if x < low {
			below++
		}
		if x > high {
			above++
		}
	}
	must.Between(t, 0.23, float64(below)/float64(len(rest)), 0.27)
	must.Between(t, 0.23, float64(above)/float64(len(rest)), 0.27)

	low, high = (&Sample{}).Range(5)
	must.Zero(t, low+high)
}

// TestSample_IsFinite gives a Sample any services.
func TestSample_IsFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSample(Pool, rapid.SliceOfN(rapid.Float64(), 0, 80).Draw(t, "services"))
		attained := rapid.Float64Range(0, 1e12).Draw(t, "attained")
		left, trust := s.Left(attained)
		low, high := s.Range(attained)
		if !(left >= 0 && trust >= 0 && trust <= 1 && low >= 0 && high >= low) || math.IsInf(left+high, 1) {
			t.Fatalf("%+v: left %v, trust %v, range %v to %v", s, left, trust, low, high)
		}
	})
}
