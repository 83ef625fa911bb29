// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

func contestant(label string, p policy.Policy) sim.Contestant {
	return sim.Contestant{Label: label, New: func() (policy.Policy, error) { return p, nil }}
}

func smallSweep() *sim.Sweep {
	return &sim.Sweep{
		Contestants: []sim.Contestant{contestant("one", fifo{}), contestant("two", greedy{})},
		Workloads:   []*trace.Trace{trace.Synthetic{Jobs: 30, Seed: 1}.Trace(), trace.Synthetic{Jobs: 20, Seed: 2}.Trace()},
		Loads:       []float64{1, 0.5}, Costs: []sim.ResizeCost{{Constant: 1}, {Constant: 30}}, Seeds: 3,
		Base: sim.Config{Nodes: sim.Uniform(16, 4, "")},
	}
}

func TestSweep_DoesNotDependOnParallelism(t *testing.T) {
	a, b := smallSweep(), smallSweep()
	a.Parallel, b.Parallel = 1, 8
	x, err := a.Run(t.Context())
	must.NoError(t, err)
	y, err := b.Run(t.Context())
	must.NoError(t, err)
	must.Eq(t, x, y)
	must.Len(t, 8, x.Cells)
	must.Eq(t, 64, x.GPUs)
	for i, c := range x.Cells {
		must.Len(t, 2, c.Runs)
		must.Len(t, 3, c.Runs[0])
		if i < 2 {
			must.NotNil(t, c.Detail)
			must.Len(t, 3*(30+20), c.JCTs)
		} else {
			must.Nil(t, c.Detail)
		}
	}
	// A dearer resize, and nothing else, makes the first policy slower.
	jct := sim.Metrics()[0]
	must.Less(t, x.Cells[2].Estimate(jct).Mean, x.Cells[0].Estimate(jct).Mean)
	must.Positive(t, x.Cells[0].Estimate(jct).CI)
}

func TestSweep_ReportsProgress(t *testing.T) {
	s := smallSweep()
	var mu sync.Mutex
	var seen []int
	s.Progress = func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		must.Eq(t, 2*2*2*2*3, total)
		seen = append(seen, done)
	}
	_, err := s.Run(t.Context())
	must.NoError(t, err)
	must.Len(t, 48, seen)
	for i, n := range seen {
		must.Eq(t, i+1, n)
	}
}

func TestSweep_Fails(t *testing.T) {
	s := smallSweep()
	s.Contestants[1] = contestant("rogue", rogue{})
	_, err := s.Run(t.Context())
	must.ErrorContains(t, err, "rogue on synthetic-")

	broken := errors.New("no such policy")
	s.Contestants[1].New = func() (policy.Policy, error) { return nil, broken }
	_, err = s.Run(t.Context())
	must.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = smallSweep().Run(ctx)
	must.ErrorIs(t, err, context.Canceled)

	_, err = (&sim.Sweep{}).Run(t.Context())
	must.Error(t, err)
}

func TestFaults_AreSeededAndInOrder(t *testing.T) {
	tr := trace.Synthetic{Jobs: 20, Seed: 1}.Trace()
	nodes := sim.Uniform(4, 4, "")
	f := sim.Faults{FailEvery: 3600, WithdrawEvery: 7200, Back: 600}
	a := f.Events(nodes, tr, 1)
	must.Eq(t, a, f.Events(nodes, tr, 1))
	must.NotEq(t, a, f.Events(nodes, tr, 2))
	down := map[string]bool{}
	kinds := map[trace.NodeEventKind]int{}
	for _, e := range a {
		must.Eq(t, e.Kind == trace.NodeUp, down[e.Node])
		down[e.Node] = e.Kind != trace.NodeUp
		kinds[e.Kind]++
	}
	must.Between(t, 0.4, float64(kinds[trace.NodeWithdraw])/float64(kinds[trace.NodeDown]), 0.6)
}

func TestSummarize(t *testing.T) {
	s := sim.Summarize(&sim.Result{
		Jobs: []sim.JobResult{
			{ID: "a", Submit: 0, Start: 10, Done: 100, Ended: true, RunTime: 80, Attained: 3600, Resizes: 3, Fairness: 2, Deadline: 90},
			{ID: "b", Submit: 50, Start: 50, Done: 250, Ended: true, RunTime: 200, Attained: 7200, Resizes: 0, Fairness: 0.5, Deadline: 300},
			{ID: "c", Submit: 60, Done: 260},
		},
		Makespan: 260, Held: 10800, Capacity: 21600, Gap: 1080, Lost: 1080,
	})
	must.Eq(t, 3, s.Jobs)
	must.Eq(t, 1, s.Unfinished)
	must.Eq(t, 500.0/3, s.JCT.Mean)
	must.Eq(t, 200, s.JCT.Median)
	must.Eq(t, 200, s.JCT.P99)
	must.Eq(t, (20+0+200)/3.0, s.Queueing.Mean)
	must.Eq(t, (10+0+200)/3.0, s.Wait.Mean)
	must.Eq(t, 3, s.GPUHours)
	must.Eq(t, 0.5, s.Utilisation)
	must.InDelta(t, 0.8, s.Productive, 1e-12)
	must.Eq(t, 1, s.ResizesPerJob)
	must.Eq(t, 1/3.0, s.Unfair)
	must.Eq(t, 2, s.Deadlines)
	must.Eq(t, 1, s.Missed)
	must.Eq(t, 0, sim.Summarize(&sim.Result{}).Jobs)
}

// TestEstimate checks the interval against a worked example: 10, 12, 14 have
// mean 12 and standard error 2/√3, and Student's t with 2 degrees of freedom
// is 4.303.
func TestEstimate(t *testing.T) {
	c := sim.Cell{Runs: [][]sim.Summary{{
		{JCT: sim.Stats{Mean: 10}}, {JCT: sim.Stats{Mean: 12}}, {JCT: sim.Stats{Mean: 14}},
	}}}
	e := c.Estimate(sim.Metrics()[0])
	must.Eq(t, 12, e.Mean)
	must.InDelta(t, 4.303*2/math.Sqrt(3), e.CI, 1e-3)
}

// Two equal jobs that share a cluster evenly are as well off as each on its half.
func TestFairness_OfEqualJobs(t *testing.T) {
	tr := one(100, 2)
	tr.Jobs = append(tr.Jobs, tr.Jobs[0])
	tr.Jobs[1].ID = "b"
	for i := range tr.Jobs {
		tr.Jobs[i].Preferred = 2
	}
	res := run(t, sim.Config{Nodes: sim.Uniform(1, 4, ""), Trace: tr, Policy: fifo{}})
	must.Eq(t, 1, res.Jobs[0].Fairness)
	must.Eq(t, 1, res.Jobs[1].Fairness)
	// One after the other on two GPUs: the first was twice as fast as on its half. During
	// the life of the second there were 1.5 jobs on average. Its share of 1.33 GPUs runs
	// one worker, which takes 100 s, as long as its JCT.
	res = run(t, sim.Config{Nodes: sim.Uniform(1, 2, ""), Trace: tr, Policy: fifo{}})
	must.Eq(t, 0.5, res.Jobs[0].Fairness)
	must.Eq(t, 1, res.Jobs[1].Fairness)
}
