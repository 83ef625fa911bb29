// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"math"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// liar is the ID and the tenant of the job that reports what it likes.
const liar = "liar"

// drawCrowd draws a pool of honest jobs that scale as jobs do, and among them the
// liar, of which nothing is known yet.
func drawCrowd(t *rapid.T) (s *policy.Snapshot, suspect *policy.Job) {
	gpus := rapid.IntRange(2, 40).Draw(t, "gpus")
	s = &policy.Snapshot{Now: 1e6, Changed: true, Nodes: []policy.Node{{ID: "n", GPUs: gpus}}, ResizeCost: rapid.SampledFrom([]float64{0, 1, 30}).Draw(t, "cost")}
	jobs := rapid.IntRange(2, 6).Draw(t, "jobs")
	at := rapid.IntRange(0, jobs-1).Draw(t, "liar")
	for i := range jobs {
		j := policy.Job{
			ID: fmt.Sprint("j", i), Tenant: fmt.Sprint("team-", i%2), Submit: 1000 * float64(i), Preemptible: rapid.Bool().Draw(t, "preemptible"),
			Weight: rapid.SampledFrom([]float64{0.01, 0.5, 1, 4}).Draw(t, "weight"), Priority: rapid.SampledFrom([]int{1, 50, 50, 70}).Draw(t, "priority"),
			Min: rapid.IntRange(1, 3).Draw(t, "min"), Preferred: rapid.IntRange(0, 8).Draw(t, "preferred"),
			Curve: honest(gpus, rapid.Float64Range(0.01, 0.5).Draw(t, "serial")),
		}
		j.Max = max(j.Min, rapid.IntRange(1, gpus).Draw(t, "max"))
		if rapid.Bool().Draw(t, "ran") {
			j.FirstStart, j.LastChange = j.Submit, j.Submit
			j.Count = rapid.IntRange(0, j.Max).Draw(t, "count")
			j.RunTime = rapid.Float64Range(0, s.Now-j.Submit).Draw(t, "run")
			j.Attained = j.RunTime * float64(j.Max)
		}
		if i == at {
			j.ID, j.Tenant = liar, liar
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s, &s.Jobs[at]
}

// honest is the curve of a job of which a part of each step is serial: 0 scales
// perfectly.
func honest(sizes int, serial float64) speedup.Curve {
	times := make([]float64, sizes)
	for i := range times {
		n := float64(i + 1)
		times[i] = serial + (1-serial)/n
	}
	return speedup.CurveOf(times...)
}

// drawLie draws step times without rhyme or reason, as they reach a policy.
func drawLie(t *rapid.T, sizes int) speedup.Curve {
	points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) speedup.Point {
		return speedup.Point{
			Size:     rapid.IntRange(1, sizes).Draw(t, "size"),
			StepTime: math.Pow(10, rapid.Float64Range(-9, 9).Draw(t, "log step")),
		}
	}), 1, 8).Draw(t, "lie")
	return speedup.NewCurve(points...).Sublinear()
}

// othersHold is how many GPUs the decision leaves to the jobs of other tenants.
func othersHold(d *policy.Decision) (n int) {
	for _, a := range d.Allocations {
		if a.Job != liar {
			n += a.Count
		}
	}
	return n
}

// liarHolds is how many GPUs the decision gives to the liar.
func liarHolds(d *policy.Decision) int {
	all := 0
	for _, a := range d.Allocations {
		all += a.Count
	}
	return all - othersHold(d)
}

// perfectHolds is the most that the job holds where it scales perfectly. Policies give
// it GPUs several at a time, which may not fit where fewer would: any maximum is tried.
func perfectHolds(p policy.Policy, s *policy.Snapshot, suspect *policy.Job) (holds int) {
	most := suspect.Max
	suspect.Curve = honest(s.Nodes[0].GPUs, 0)
	for suspect.Max = suspect.Min; suspect.Max <= most; suspect.Max++ {
		d := p.Allocate(s)
		holds = max(holds, liarHolds(&d))
	}
	suspect.Max = most
	return holds
}

// TestPolicies_LyingGainsNoMoreThanScaling reports false times and lengths for a job. The
// job must not get more than it would if it scaled perfectly, unless the policy's Info
// states that the policy trusts that report.
func TestPolicies_LyingGainsNoMoreThanScaling(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p policy.Policy) {
		info, _ := Policies.Describe(p.Name())
		if info.Trusts == registry.Times {
			t.Skip("its documentation says that it trusts step times")
		}
		rapid.Check(t, func(t *rapid.T) {
			s, suspect := drawCrowd(t)
			gpus := s.Nodes[0].GPUs
			most := perfectHolds(p, s, suspect)
			suspect.Curve = drawLie(t, gpus)
			if info.Trusts == registry.Nothing {
				suspect.Remaining = rapid.SampledFrom([]float64{0, 1e-3, 1, 1e12}).Draw(t, "remaining")
				suspect.Done = rapid.SampledFrom([]float64{0, 1, 1e12}).Draw(t, "done")
			}
			lied := p.Allocate(s)
			if got := liarHolds(&lied); got > most {
				t.Fatalf("it holds %d GPUs by lying, and %d if it scales perfectly\n%v", got, most, lied.Allocations)
			}
		})
	})
}

// TestKolo_AFalseLengthMakesAJobFresh: with any declared length, a job weighs at most as
// much as a job that has just arrived, of a kind of which nothing is known. The sizes of
// jobs are not compared: a job of less weight may grow by a step if no other job fits into
// the remaining GPUs.
func TestKolo_AFalseLengthMakesAJobFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, suspect := drawCrowd(t)
		suspect.Curve = honest(s.Nodes[0].GPUs, 0)
		suspect.Remaining = math.Pow(10, rapid.Float64Range(-3, 9).Draw(t, "log remaining"))
		weight := func() float64 {
			_, pools := split(s)
			for _, c := range pools[0].jobs {
				if c.ID == liar {
					return koloDefaults.weight(s, pools[0], c)
				}
			}
			return 0 // it does not fit
		}
		lied := weight()
		suspect.Remaining, suspect.Attained, suspect.RunTime, suspect.Submit = 0, 0, 0, s.Now
		if fresh := weight(); lied > fresh {
			t.Fatalf("it weighs %g by lying, and %g if it is fresh", lied, fresh)
		}
	})
}

// TestPolicies_GrowthIsBidAtOwnPriorityAndWeight has one job that scales perfectly and two
// that do not. All of them run at their minimum.
func TestPolicies_GrowthIsBidAtOwnPriorityAndWeight(t *testing.T) {
	crowd := func(priority int, weight float64) *policy.Snapshot {
		s := cluster(16)
		for i := range 3 {
			s.Jobs = append(s.Jobs, policy.Job{
				ID: fmt.Sprint("j", i), Priority: 50, Weight: 4, Min: 1, Max: 7, Preferred: 1, Count: 1, Curve: honest(16, 0.1), RunTime: 1e4, Attained: 1e4, FirstStart: 1,
			})
		}
		j := &s.Jobs[0]
		j.ID, j.Priority, j.Weight, j.Max, j.Curve = liar, priority, weight, 16, honest(16, 0)
		return s
	}
	for _, spec := range []string{"kolo", "ffdl", `ffdl(method="greedy")`, `ffdl(method="hull")`, "optimus", "elastic-tiresias", "elasticflow", "afs-l", "pollux"} {
		p, err := Policies.Parse(spec)
		must.NoError(t, err)
		t.Run(spec, func(t *testing.T) {
			d := p.Allocate(crowd(1, 4))
			must.Eq(t, 14, othersHold(&d), must.Sprint("of lower priority"))
			if spec == "elasticflow" || spec == "afs-l" {
				return // they weigh no jobs
			}
			d = p.Allocate(crowd(50, 0.01))
			must.Eq(t, 14, othersHold(&d), must.Sprint("of little weight"))
		})
	}
}

// TestKolo_LowPriorityStarts has a job of high priority that could use all GPUs.
func TestKolo_LowPriorityStarts(t *testing.T) {
	s := cluster(16,
		policy.Job{ID: "high", Priority: 70, Max: 16, Count: 1, Curve: honest(16, 0.05), RunTime: 1e4, Attained: 1e4, FirstStart: 1},
		policy.Job{ID: "low", Priority: 10, Max: 16, Curve: honest(16, 0)})
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	d := p.Allocate(s)
	must.Eq(t, 1, d.Allocations[1].Count, must.Sprint(d.Allocations))
}
