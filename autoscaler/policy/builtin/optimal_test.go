// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// bestSum tries every split of gpus over the jobs, each at one of its sizes
// from its minimum up, and answers the highest sum of value.
func bestSum(jobs []*candidate, gpus int, value func(c *candidate, n int) float64) float64 {
	if len(jobs) == 0 {
		return 0
	}
	c, best := jobs[0], math.Inf(-1)
	for n := c.low; n > 0 && c.cost(n) <= gpus; n = c.next(n) {
		best = max(best, value(c, n)+bestSum(jobs[1:], gpus-c.cost(n), value))
	}
	return best
}

func speedOf(c *candidate, n int) float64 { return c.speed(n) }

// drawFew draws a cluster small enough to try everything.
func drawFew(t *rapid.T, curve *rapid.Generator[speedup.Curve]) (*policy.Snapshot, []*candidate) {
	s := &policy.Snapshot{Now: 1000, Changed: true, Nodes: []policy.Node{{ID: "n", GPUs: rapid.IntRange(1, 12).Draw(t, "gpus")}}}
	for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		low := rapid.IntRange(1, 3).Draw(t, "min")
		s.Jobs = append(s.Jobs, policy.Job{
			ID: strconv.Itoa(i), Min: low, Max: low + rapid.IntRange(0, 8).Draw(t, "more"), Preemptible: true,
			PerWorker: rapid.IntRange(1, 2).Draw(t, "per"), Curve: curve.Draw(t, "curve"), Submit: float64(i),
		})
	}
	_, pools := split(s)
	return s, pools[0].jobs
}

// admitted is the prefix of jobs whose minima fit, as FfDL admits them.
func admitted(s *policy.Snapshot, jobs []*candidate) []*candidate {
	// A job larger than the whole pool never enters it.
	p := &pool{gpus: s.Nodes[0].GPUs, free: s.Nodes[0].GPUs, jobs: jobs}
	return p.prefix(jobs)
}

// concave draws curves whose gains fall.
var concave = rapid.Custom(func(t *rapid.T) speedup.Curve {
	s, gain := 1.0, 1.0
	speeds := []float64{1}
	for range 12 {
		gain *= rapid.Float64Range(0.3, 1).Draw(t, "gain")
		s += gain
		speeds = append(speeds, s)
	}
	return speedups(speeds...)
})

func TestFfDL_DynamicProgrammeEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, jobs := drawFew(t, rapid.Custom(drawCurve))
		in := admitted(s, jobs)
		got, want := ffdlSum(t, "dp", s, in), bestSum(in, s.Nodes[0].GPUs, speedOf)
		if math.Abs(got-want) > 1e-9*want {
			t.Fatalf("total speed-up %v, the best is %v", got, want)
		}
	})
}

func TestFfDL_GreedyIsOptimalForConcaveCurves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawFew(t, concave)
		for i := range s.Jobs {
			s.Jobs[i].PerWorker = 1 // steps of one GPU, as the theorem wants
		}
		_, pools := split(s)
		in := admitted(s, pools[0].jobs)
		want := bestSum(in, s.Nodes[0].GPUs, speedOf)
		for _, method := range []string{"greedy", "hull"} {
			if got := ffdlSum(t, method, s, in); math.Abs(got-want) > 1e-9*want {
				t.Fatalf("%s: total speed-up %v, the best is %v", method, got, want)
			}
		}
	})
}

// TestPollux_MaximisesTheHarmonicMean compares pollux with every split, for jobs that have
// their minima and may grow to twice their largest measured size. Some of them run.
func TestPollux_MaximisesTheHarmonicMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, jobs := drawFew(t, rapid.Custom(drawCurve))
		s.ResizeCost = rapid.Float64Range(0, 300).Draw(t, "cost")
		for i := range s.Jobs {
			s.Jobs[i].Weight = rapid.SampledFrom([]float64{1, 3}).Draw(t, "weight")
			s.Jobs[i].Count = rapid.IntRange(0, s.Jobs[i].Max).Draw(t, "count")
			s.Jobs[i].Resizes = rapid.IntRange(0, 5).Draw(t, "resizes")
		}
		gpus, all := s.Nodes[0].GPUs, len(jobs)
		p := &pool{gpus: gpus, free: gpus, jobs: jobs}
		p.minima(jobs, "")
		var in []*candidate
		for _, c := range jobs {
			if c.n > 0 {
				in = append(in, c)
			}
		}
		loss := func(c *candidate, n int) float64 {
			if n > c.low && n > 2*c.Curve.Largest() && n > c.Count {
				return math.Inf(-1)
			}
			factor := 1.0
			if c.Count > 0 && n != c.Count {
				age := s.Now - c.Submit
				factor = max(leastRestart, (age-float64(c.Resizes)*s.ResizeCost)/(age+max(s.ResizeCost, leastResizeCost)))
			}
			fair := c.speed(max(c.low, c.floor(gpus/all/c.per)))
			return -c.weight() * fair / (c.speed(n) * factor)
		}
		rule, err := Policies.New("pollux", nil)
		if err != nil {
			t.Fatal(err)
		}
		d, got := rule.Allocate(s), 0.0
		for _, c := range in {
			got += loss(c, d.Allocations[c.place].Count)
		}
		if want := bestSum(in, gpus, loss); math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Fatalf("sum %v, the best is %v", got, want)
		}
	})
}

// TestPollux_ManyJobs compares dynamic programming with the greedy steps that replace it if
// its table would be too large.
func TestPollux_ManyJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawFew(t, concave)
		for i := range s.Jobs {
			s.Jobs[i].PerWorker = 1
		}
		sum := func(limit int) (out float64) {
			_, pools := split(s)
			pollux{}.plan(s, pools[0], limit)
			for _, c := range pools[0].jobs {
				if c.n > 0 {
					out += c.score / c.speed(c.n)
				}
			}
			return out
		}
		if exact, steps := sum(ffdlLimit), sum(0); math.Abs(steps-exact) > 1e-9*exact {
			t.Fatalf("sum %v, the best is %v", steps, exact)
		}
	})
}

// ffdlSum is the total speed-up that a method of FfDL reaches.
func ffdlSum(t *rapid.T, method string, s *policy.Snapshot, in []*candidate) float64 {
	p, err := Policies.Parse(fmt.Sprintf("ffdl(method=%q)", method))
	if err != nil {
		t.Fatal(err)
	}
	d, sum := p.Allocate(s), 0.0
	for _, c := range in {
		sum += c.speed(d.Allocations[c.place].Count)
	}
	return sum
}

// TestKolo_MaximisesItsSum compares kolo with every split if its hull has no gaps: with
// concave curves, steps of one GPU, and no running job.
func TestKolo_MaximisesItsSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawFew(t, concave)
		for i := range s.Jobs {
			s.Jobs[i].PerWorker, s.Jobs[i].Min, s.Jobs[i].Preferred = 1, 1, 12
			s.Jobs[i].Attained = rapid.Float64Range(0, 1e6).Draw(t, "attained")
		}
		_, pools := split(s)
		jobs := pools[0].jobs
		p, err := Policies.New("kolo", nil)
		if err != nil {
			t.Fatal(err)
		}
		value := func(c *candidate, n int) float64 {
			return koloDefaults.weight(s, pools[0], c) * math.Pow(c.speed(n), 1-koloDefaults.Fairness)
		}
		got := 0.0
		for i, a := range p.Allocate(s).Allocations {
			got += value(jobs[i], a.Count)
		}
		want := bestWithZero(jobs, s.Nodes[0].GPUs, value)
		if math.Abs(got-want) > 1e-9*want {
			t.Fatalf("worth %v, the best is %v", got, want)
		}
	})
}

// bestWithZero is bestSum where jobs may also get nothing.
func bestWithZero(jobs []*candidate, gpus int, value func(c *candidate, n int) float64) float64 {
	if len(jobs) == 0 {
		return 0
	}
	c := jobs[0]
	best := bestWithZero(jobs[1:], gpus, value)
	for n := c.low; n > 0 && c.cost(n) <= gpus; n = c.next(n) {
		best = max(best, value(c, n)+bestWithZero(jobs[1:], gpus-c.cost(n), value))
	}
	return best
}

// TestHull_IsTheUpperHull compares the incremental hull with its definition: no size lies
// above the line between its neighbours on the hull.
func TestHull_IsTheUpperHull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		worth := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 20).Draw(t, "worth")
		var h hull
		h.reset(0, 0, 0)
		for i, w := range worth {
			h.add(i+1, float64(i+1), w)
		}
		h.trim()
		for i := 2; i < len(h); i++ {
			if h.slope(i) >= h.slope(i-1) {
				t.Fatalf("slope rises at %d: %v", i, h)
			}
		}
		for i := 1; i < len(h); i++ {
			if h.slope(i) <= 0 {
				t.Fatalf("edge %d gains nothing: %v", i, h)
			}
			for n := h[i-1].n + 1; n < h[i].n; n++ {
				line := h[i-1].worth + h.slope(i)*float64(n-h[i-1].n)
				if worth[n-1] > line+1e-9 {
					t.Fatalf("size %d lies above the hull: %v", n, h)
				}
			}
		}
		top := 0.0
		for _, w := range worth {
			top = max(top, w)
		}
		if h[len(h)-1].worth != top {
			t.Fatalf("the hull ends at %v, the top is %v", h[len(h)-1].worth, top)
		}
	})
}

// TestSRJF_NoOrderIsBetterOnOneGPU compares the shortest-first rule with all orders of jobs
// that arrive together and run on one GPU.
func TestSRJF_NoOrderIsBetterOnOneGPU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &policy.Snapshot{Changed: true, Nodes: []policy.Node{{ID: "n", GPUs: 1}}}
		var lengths []float64
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			x := rapid.Float64Range(1, 1000).Draw(t, "length")
			lengths = append(lengths, x)
			s.Jobs = append(s.Jobs, policy.Job{ID: strconv.Itoa(i), Min: 1, Max: 1, Preferred: 1, Preemptible: true, Curve: speedup.CurveOf(1), Remaining: x})
		}
		p, err := Policies.New("srjf", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for len(s.Jobs) > 0 {
			d := p.Allocate(s)
			audit(t, s, &d)
			i := slices.IndexFunc(d.Allocations, func(a policy.Allocation) bool { return a.Count > 0 })
			s.Now += s.Jobs[i].Remaining
			got += s.Now
			s.Jobs = slices.Delete(s.Jobs, i, i+1)
		}
		if want := leastTotal(lengths, 0); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("total completion time %v, the least is %v", got, want)
		}
	})
}

// leastTotal is the least sum of completion times over all orders of jobs of
// the given lengths, the first of which starts at now.
func leastTotal(lengths []float64, now float64) float64 {
	if len(lengths) == 0 {
		return 0
	}
	best := math.Inf(1)
	for i, x := range lengths {
		rest := slices.Delete(slices.Clone(lengths), i, i+1)
		best = min(best, now+x+leastTotal(rest, now+x))
	}
	return best
}
