// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// same returns so many jobs of one GPU that have just arrived, in a pool of GPUs.
func same(jobs, gpus int, alike length.Sample) *policy.Snapshot {
	s := &policy.Snapshot{Now: 1, Changed: true, Nodes: []policy.Node{{ID: "n", GPUs: gpus}}, ResizeCost: 1}
	for i := range jobs {
		s.Jobs = append(s.Jobs, policy.Job{
			ID: fmt.Sprint("j", i), Submit: 1, Min: 1, Max: 1, Preferred: 1, PerWorker: 1, Preemptible: true, Alike: alike, Curve: speedup.CurveOf(1),
		})
	}
	return s
}

// pass carries out a decision and lets time pass. It returns the jobs that were suspended.
func pass(s *policy.Snapshot, d *policy.Decision, dt float64) (suspended []*policy.Job) {
	for i := range s.Jobs {
		j, n := &s.Jobs[i], d.Allocations[i].Count
		if n < j.Count {
			suspended = append(suspended, j)
		}
		if n > 0 && j.Count == 0 {
			if j.FirstStart > 0 {
				j.Resizes++
			}
			j.FirstStart = max(j.FirstStart, s.Now)
		}
		j.Count = n
		j.Attained += dt * float64(n)
		if n > 0 {
			j.RunTime += dt
		}
		if j.Remaining > 0 {
			j.Remaining = max(1e-3, j.Remaining-dt*float64(n))
		}
	}
	s.Now += dt
	s.State = d.State
	return suspended
}

// TestKolo_SameJobsKeepTheirPlace runs jobs of the same length, none of which ends. If
// their length is known, from declarations or from earlier jobs, no suspension is ever
// worth its price. If not, jobs with little service go first, but a job loses its place
// only to one that has received clearly less. So the number of a job's resizes is bounded.
func TestKolo_SameJobsKeepTheirPlace(t *testing.T) {
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SampledFrom([]string{"declared", "learned", ""}).Draw(t, "known")
		work, span := 100_000.0, 60_000.0 // before patience acts
		alike := length.Sample{}
		switch known {
		case "learned":
			alike = length.Sample{Origin: length.Kind, Count: 16, Median: work, Spread: rapid.Float64Range(0.1, 0.5).Draw(t, "spread")}
		case "":
			span = 1e6
		}
		s := same(rapid.IntRange(2, 12).Draw(t, "jobs"), rapid.IntRange(1, 4).Draw(t, "gpus"), alike)
		s.ResizeCost = rapid.SampledFrom([]float64{0, 1, 30}).Draw(t, "cost")
		if known == "declared" {
			for i := range s.Jobs {
				s.Jobs[i].Remaining = work
			}
		}
		step := rapid.Float64Range(50, 700).Draw(t, "step")
		for s.Now < span {
			s.Changed = true
			d := p.Allocate(s)
			out := pass(s, &d, step)
			if known != "" && len(out) > 0 {
				t.Fatalf("suspends %s at %v after %v GPU-seconds", out[0].ID, s.Now, out[0].Attained)
			}
		}
		for i := range s.Jobs {
			if j := &s.Jobs[i]; j.Resizes > 16 {
				t.Fatalf("%s was resized %d times in %v s", j.ID, j.Resizes, s.Now)
			}
		}
	})
}

// TestKolo_SuspendsForShorterJobs: predicted lengths order the jobs of a kind, and a job
// that runs longer than its kind's jobs did is suspended for a new one.
func TestKolo_SuspendsForShorterJobs(t *testing.T) {
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	short, long := length.Sample{Origin: length.Kind, Count: 16, Median: 300, Spread: 0.2}, length.Sample{Origin: length.Kind, Count: 16, Median: 40_000, Spread: 0.2}

	s := same(3, 1, long)
	s.Jobs[2].Alike = short
	d := p.Allocate(s)
	must.Eq(t, []int{0, 0, 1}, []int{d.Allocations[0].Count, d.Allocations[1].Count, d.Allocations[2].Count})

	s = same(2, 1, short)
	s.Jobs[0].Count, s.Jobs[0].FirstStart, s.Jobs[0].Attained, s.Jobs[0].RunTime, s.Now = 1, 1, 300, 300, 301
	d = p.Allocate(s)
	must.Eq(t, 1, d.Allocations[0].Count, must.Sprint("about to end"))
	s.Jobs[0].Attained, s.Jobs[0].RunTime, s.Now = 30_000, 30_000, 30_001
	s.Jobs[1].Submit = 30_000
	d = p.Allocate(s)
	must.Eq(t, 0, d.Allocations[0].Count, must.Sprint("outran its kind a hundredfold"))
}

// TestKolo_PatienceIsForTheStarved: in a burst in which all jobs wait long, none is
// favoured for that. A job that waits far longer than the running ones did is.
func TestKolo_PatienceIsForTheStarved(t *testing.T) {
	p, err := Policies.New("kolo", nil)
	must.NoError(t, err)
	at := func(ranWaited float64) int {
		s := same(2, 1, length.Sample{})
		s.Now = 40_000
		s.Jobs[1].Submit = 10_000 // waits for 30,000 s
		j := &s.Jobs[0]
		j.Count, j.RunTime, j.Attained = 1, 500, 500
		j.Submit = s.Now - j.RunTime - ranWaited
		d := p.Allocate(s)
		return d.Allocations[1].Count
	}
	must.Eq(t, 0, at(20_000), must.Sprint("the running job waited about as long"))
	must.Eq(t, 1, at(0), must.Sprint("the running job did not wait"))
}

// TestKolo_Tail: with tail = 1, service and expected length have no influence.
func TestKolo_Tail(t *testing.T) {
	p, err := Policies.Parse("kolo(tail=1)")
	must.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		s := same(4, 3, length.Sample{})
		for i := range s.Jobs {
			s.Jobs[i].Max = 4
		}
		before := p.Allocate(s)
		for i := range s.Jobs {
			s.Jobs[i].Remaining = rapid.Float64Range(1, 1e6).Draw(t, "left")
			s.Jobs[i].Attained = rapid.Float64Range(0, 1e6).Draw(t, "attained")
		}
		after := p.Allocate(s)
		for i := range s.Jobs {
			must.Eq(t, before.Allocations[i].Count, after.Allocations[i].Count)
		}
	})
}

// TestGuess_Predicts: policies that use lengths take those of completed jobs of the kind,
// and not those of the pool.
func TestGuess_Predicts(t *testing.T) {
	of := func(origin length.Origin) float64 {
		c := candidate{Job: &policy.Job{Attained: 100, Alike: length.Sample{Origin: origin, Count: 16, Median: 20_000, Spread: 0.1}}}
		return c.guess()
	}
	must.Between(t, 18_000, of(length.Kind), 20_500)
	must.Eq(t, of(length.Kind), of(length.Namespace))
	must.Eq(t, 100+servicePrior, of(length.Pool))
}
