// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// adaptive returns a workload of a single job of two phases. A unit of progress takes 1 s on
// one worker and 0.5 s on two, and in the second phase 0.5 s and 0.3 s. Each phase has 100.
func adaptive(t testing.TB) *trace.Trace {
	t.Helper()
	return withPhases(t, `application,phase,end,gpus,step_time_s
net,0,100,1,1
net,0,100,2,0.5
net,1,200,1,0.5
net,1,200,2,0.3
`, "")
}

// withPhases returns a workload of a single job with the given phases and statistics.
func withPhases(t testing.TB, phases, gradients string) *trace.Trace {
	t.Helper()
	dir := t.TempDir()
	path, stats := filepath.Join(dir, "phases.csv"), ""
	must.NoError(t, os.WriteFile(path, []byte(phases), 0o600))
	if gradients != "" {
		stats = filepath.Join(dir, "gradients.csv")
		must.NoError(t, os.WriteFile(stats, []byte(gradients), 0o600))
	}
	p, err := trace.OpenPhases(path, stats)
	must.NoError(t, err)
	tr := one(1, 2)
	tr.Jobs[0].App = "net"
	must.NoError(t, p.Apply(tr))
	return tr
}

func TestRun_PhasesChangeTheStepTime(t *testing.T) {
	for name, tc := range map[string]struct {
		policy script
		done   float64
		resize int
	}{
		"one size":                  {script{at: []float64{0}, size: []int{1}}, 10 + 100 + 50, 0},
		"a resize within a phase":   {script{at: []float64{0, 60}, size: []int{1, 2}}, 10 + 50 + 10 + 25 + 30, 1},
		"suspended within a phase":  {script{at: []float64{0, 60, 100}, size: []int{1, 0, 1}}, 100 + 10 + 50 + 50, 1},
		"a resize at the phase end": {script{at: []float64{0, 110}, size: []int{1, 2}}, 110 + 10 + 30, 1},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, sim.Config{
				Nodes: sim.Uniform(1, 2, ""), Trace: adaptive(t), Policy: tc.policy, Resize: sim.ResizeCost{Constant: 10}, Info: sim.Info{Curves: true},
			})
			must.InDelta(t, tc.done, res.Jobs[0].Done, 1e-9)
			must.Eq(t, tc.resize, res.Jobs[0].Resizes, must.Sprint("a new batch size is no resize"))
			must.True(t, res.Jobs[0].Ended)
		})
	}
}

func TestRun_PhasesRescaleMeasurements(t *testing.T) {
	var saw []speedup.Curve
	record := func(info sim.Info) {
		p := script{at: []float64{0, 50, 80, 90}, size: []int{1, 2, 2, 2}, saw: new([]policy.Job)}
		run(t, sim.Config{Nodes: sim.Uniform(1, 2, ""), Trace: adaptive(t), Policy: p, Info: info})
		saw = nil
		for _, j := range *p.saw {
			saw = append(saw, j.Curve)
		}
	}
	record(sim.Info{Kinds: true})
	last := saw[len(saw)-1] // at 80 s: 50 units at one worker, 50 at two until 75 s
	must.Eq(t, 0.5, last.Time(1), must.Sprint("it did not run at one worker in this phase"))
	must.Eq(t, 0.3, last.Time(2))

	record(sim.Info{Curves: true})
	must.Eq(t, 1, saw[0].Time(1))
	must.Eq(t, 0.3, saw[len(saw)-1].Time(2))
}

func TestRun_FailureKeepsThePhase(t *testing.T) {
	// Commits are made at 0 s, 30 s, 60 s, 90 s, at the new batch size of 100 s, and 130 s.
	res := run(t, sim.Config{
		Nodes: sim.Uniform(2, 1, ""), Trace: adaptive(t), Commit: 30, Policy: script{at: []float64{0}, size: []int{1}},
		Events: []trace.NodeEvent{{Time: 110, Node: "node-0", Kind: trace.NodeDown}},
	})
	must.Eq(t, 10, res.Lost)
	must.InDelta(t, 110+50, res.Jobs[0].Done, 1e-9)
}

func TestRun_NoiseErrorDependsOnTheSeedAlone(t *testing.T) {
	const phases = `application,phase,end,gpus,step_time_s,batch,accum
net,0,1000,1,1,8,0
net,0,1000,2,0.8,8,0
net,1,3000,1,0.78,16,1
net,1,3000,2,0.52,16,0
`
	const gradients = `application,batch_size,epoch,grad_sqr,grad_var
net,8,0,1,8
net,8,1,1,24
`
	tr := withPhases(t, phases, gradients)
	at := func(seed uint64, noise float64) float64 {
		res := run(t, sim.Config{
			Nodes: sim.Uniform(1, 2, ""), Trace: tr, Policy: script{at: []float64{0}, size: []int{1}}, Seed: seed,
			Info: sim.Info{NoiseError: noise},
		})
		return res.Jobs[0].Done
	}
	must.InDelta(t, 1000+2000*0.78, at(1, 0), 1e-9)
	seen := map[float64]bool{}
	for seed := range uint64(10) {
		must.Eq(t, at(seed, 5), at(seed, 5))
		must.GreaterEq(t, 1000+2000*0.78-1e-6, at(seed, 5), must.Sprint("no error makes a job faster"))
		seen[at(seed, 5)] = true
	}
	must.Greater(t, 1, len(seen))
}

// TestRun_PhasesProgress runs a job with random phases through random resizes. Its progress
// never decreases, and adds up to that of its phases.
func TestRun_PhasesProgress(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		b.WriteString("application,phase,end,gpus,step_time_s\n")
		end := 0.0
		for k := range rapid.IntRange(1, 5).Draw(rt, "phases") {
			end += rapid.Float64Range(1, 100).Draw(rt, "length")
			for n := 1; n <= 3; n++ {
				b.WriteString("net," + strconv.Itoa(k) + "," + strconv.FormatFloat(end, 'g', -1, 64) + "," + strconv.Itoa(n) + ",")
				b.WriteString(strconv.FormatFloat(rapid.Float64Range(0.01, 10).Draw(rt, "step"), 'g', -1, 64) + "\n")
			}
		}
		p := script{at: []float64{0}, size: []int{1}, saw: new([]policy.Job)}
		for range 4 {
			p.at = append(p.at, p.at[len(p.at)-1]+rapid.Float64Range(1, 200).Draw(rt, "wait"))
			p.size = append(p.size, rapid.IntRange(0, 3).Draw(rt, "size"))
		}
		p.size[4] = 2
		tr := withPhases(t, b.String(), "")
		res, err := sim.Run(t.Context(), sim.Config{Nodes: sim.Uniform(1, 3, ""), Trace: tr, Policy: p, Info: sim.Info{Curves: rapid.Bool().Draw(rt, "curves")}})
		if err != nil {
			rt.Fatal(err)
		}
		if !res.Jobs[0].Ended {
			rt.Fatal("the job did not end")
		}
		done := 0.0
		for _, j := range *p.saw {
			if j.Done < done || j.Done > end*(1+1e-9) {
				rt.Fatalf("progress %v after %v, of %v", j.Done, done, end)
			}
			done = j.Done
		}
	})
}

// TestRun_GoodputOfPollux checks the averages in docs/research.md.
func TestRun_GoodputOfPollux(t *testing.T) {
	path := shared(t, "data", "pollux", "phases.csv")
	p, err := trace.OpenPhases(path, "")
	must.NoError(t, err)
	for cost, want := range map[float64]float64{30: 2430, 1: 2012} {
		mean := 0.0
		for w := 1; w <= 4; w++ {
			tr, err := trace.Open(shared(t, "data", "pollux", "jobs.csv"), trace.Options{Workload: w, Phases: p})
			must.NoError(t, err)
			res, err := sim.Run(t.Context(), sim.Config{
				Nodes: sim.Uniform(16, 4, ""), Trace: tr, Policy: parse(t, "kolo"), Seed: 1,
				Info: sim.Info{Noise: 0.05}, Resize: sim.ResizeCost{Constant: cost}, Commit: 60,
			})
			must.NoError(t, err)
			s := sim.Summarize(res)
			mean += s.JCT.Mean / 4
		}
		must.InDelta(t, want, mean, 1)
	}
}

func TestRunTicks_RefusesPhases(t *testing.T) {
	_, err := sim.RunTicks(t.Context(), sim.Config{
		Nodes: sim.Uniform(1, 2, ""), Trace: adaptive(t), Policy: fifo{}, Info: sim.Info{Curves: true},
	}, 60)
	must.ErrorContains(t, err, "jobs cannot adapt their batch size in ticks")
}

// TestRun_PhasesAreNoReasonToMove has step times that do not depend on the workers' places.
// Faster later phases must not be mistaken for a faster placement.
func TestRun_PhasesAreNoReasonToMove(t *testing.T) {
	var b strings.Builder
	b.WriteString("application,phase,end,gpus,step_time_s\n")
	for k := range 20 {
		for n := 1; n <= 8; n++ {
			fmt.Fprintf(&b, "net,%d,%d,%d,%g\n", k, 200*(k+1), n, math.Pow(0.8, float64(k))/float64(n))
		}
	}
	tr := withPhases(t, b.String(), "")
	tr.Jobs[0].Max = 8
	for i := 1; i < 12; i++ {
		j := tr.Jobs[0]
		j.ID, j.Submit = strconv.Itoa(i), float64(60*i)
		tr.Jobs = append(tr.Jobs, j)
	}
	res := run(t, sim.Config{
		Nodes: sim.Uniform(4, 4, ""), Trace: tr, Policy: parse(t, "kolo"), Placement: sim.Migrate, Resize: sim.ResizeCost{Constant: 1},
		Info: sim.Info{Kinds: true},
	})
	for _, j := range res.Jobs {
		must.Eq(t, 0, j.Moves)
	}
}
