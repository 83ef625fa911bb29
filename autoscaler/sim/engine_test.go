// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"math"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// fifo is a minimal policy: it runs jobs in order, at their preferred size.
type fifo struct{}

func (fifo) Name() string { return "test-fifo" }

func (fifo) Allocate(s *policy.Snapshot) policy.Decision {
	free := 0
	for _, n := range s.Nodes {
		free += n.GPUs
	}
	d := policy.Decision{}
	for i := range s.Jobs {
		n := s.Jobs[i].Preferred
		if free < n*s.Jobs[i].PerWorker {
			n = 0
		}
		free -= n * s.Jobs[i].PerWorker
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: n})
	}
	return d
}

// script is a policy that follows a timetable of counts for one job.
type script struct {
	at   []float64
	size []int
	saw  *[]policy.Job
}

func (script) Name() string { return "script" }

func (p script) Allocate(s *policy.Snapshot) policy.Decision {
	if p.saw != nil {
		*p.saw = append(*p.saw, s.Jobs[0])
	}
	room := 0
	for _, n := range s.Nodes {
		room += n.GPUs
	}
	d := policy.Decision{Allocations: []policy.Allocation{{Job: s.Jobs[0].ID}}}
	for i, at := range p.at {
		if s.Now < at {
			d.RequeueAt = at
			break
		}
		d.Allocations[0].Count = min(p.size[i], room)
	}
	return d
}

// one returns a workload of a single job with a step time of 1 s on one worker and linear
// scaling.
func one(steps float64, most int) *trace.Trace {
	curve, err := trace.PowerCurve(1, 1, most)
	if err != nil {
		panic(err)
	}
	return &trace.Trace{Jobs: []trace.Job{{
		ID: "a", Min: 1, Max: most, Preferred: 1, Weight: 1, PerWorker: 1, Preemptible: true,
		Steps: steps, Curve: curve,
	}}}
}

func run(t *testing.T, cfg sim.Config) *sim.Result {
	t.Helper()
	cfg.History = true
	res, err := sim.Run(t.Context(), cfg)
	must.NoError(t, err)
	return res
}

func TestRun_ResizesCostTheirGap(t *testing.T) {
	// 10 s gap, 90 steps; 10 s gap, 4 per second: 40 s for 160 steps; suspended
	// 50 s; 10 s gap and the last 50 steps.
	res := run(t, sim.Config{
		Nodes: sim.Uniform(2, 4, ""), Trace: one(300, 8), Resize: sim.ResizeCost{Constant: 10},
		Policy: script{at: []float64{0, 100, 150, 200}, size: []int{1, 4, 0, 1}},
	})
	j := res.Jobs[0]
	must.Eq(t, 260, j.Done)
	must.Eq(t, 2, j.Resizes)
	must.Eq(t, 50, j.Queueing())
	must.Eq(t, 100+4*50+60, j.Attained)
	must.Eq(t, 10+40+10, res.Gap)
	must.Eq(t, []sim.Change{{0, 1, 1}, {100, 4, 4}, {150, 0, 0}, {200, 1, 1}, {260, 0, 0}}, j.History)
}

func TestRun_ResizeWithinAGapStartsItAnew(t *testing.T) {
	res := run(t, sim.Config{
		Nodes: sim.Uniform(2, 4, ""), Trace: one(10, 8), Resize: sim.ResizeCost{BySize: map[int]float64{1: 10, 3: 30}},
		Policy: script{at: []float64{0, 5}, size: []int{1, 2}},
	})
	must.Eq(t, 5+20+5, res.Jobs[0].Done) // the gap of 2 workers lies between those of 1 and 3
}

func TestRun_FailureGoesBackToTheLastCommit(t *testing.T) {
	cfg := sim.Config{
		Nodes: sim.Uniform(2, 1, ""), Trace: one(100, 2), Commit: 20,
		Policy: script{at: []float64{0}, size: []int{1}},
		Events: []trace.NodeEvent{{Time: 50, Node: "node-0", Kind: trace.NodeDown}, {Time: 50, Node: "node-1", Kind: trace.NodeDown}, {Time: 80, Node: "node-1", Kind: trace.NodeUp}},
	}
	res := run(t, cfg)
	must.Eq(t, 80+60, res.Jobs[0].Done) // 40 steps were committed at 40 s
	must.Eq(t, 10, res.Lost)

	for i := range 2 {
		cfg.Events[i].Kind = trace.NodeWithdraw
	}
	res = run(t, cfg)
	must.Eq(t, 80+50, res.Jobs[0].Done)
	must.Eq(t, 0, res.Lost)
	must.Eq(t, 1, res.Jobs[0].Resizes)
}

func TestRun_SurvivorsGoOn(t *testing.T) {
	// Four workers on two nodes; one node fails at 10 s and no one refills.
	res := run(t, sim.Config{
		Nodes: sim.Uniform(2, 2, ""), Trace: one(100, 4),
		Policy: greedy{},
		Events: []trace.NodeEvent{{Time: 10, Node: "node-1", Kind: trace.NodeDown}},
	})
	must.Eq(t, 10+60/2.0, res.Jobs[0].Done)
	must.Eq(t, []sim.Change{{0, 4, 4}, {10, 2, 2}, {40, 0, 0}}, res.Jobs[0].History)
}

// greedy gives the first job all GPUs.
type greedy struct{}

func (greedy) Name() string { return "greedy" }

func (greedy) Allocate(s *policy.Snapshot) policy.Decision {
	free := 0
	for _, n := range s.Nodes {
		free += n.GPUs
	}
	d := policy.Decision{}
	for i := range s.Jobs {
		n := min(s.Jobs[i].Max, free)
		free -= n
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: n})
	}
	return d
}

func TestRun_MeasuresAsItGoes(t *testing.T) {
	var saw []policy.Job
	run(t, sim.Config{
		Nodes: sim.Uniform(2, 4, ""), Trace: one(100, 8),
		Policy: script{at: []float64{0, 20}, size: []int{1, 4}, saw: &saw},
	})
	must.False(t, saw[0].Curve.Measured())
	must.Eq(t, 0, saw[0].Remaining)
	must.Eq(t, []speedup.Point{{Size: 1, StepTime: 1, Samples: 3}}, saw[1].Curve.Points()) // the decision after three steps
	last := saw[len(saw)-1].Curve
	must.Eq(t, 0.25, last.Time(4))
	must.True(t, last.Known(1))
	must.False(t, last.Known(2))
}

func TestRun_KindsShareHowTheyScale(t *testing.T) {
	tr := one(100, 8)
	tr.Jobs[0].App = "resnet"
	tr.Jobs = append(tr.Jobs, tr.Jobs[0], tr.Jobs[0])
	for i, app := range []string{"resnet", "resnet", "other"} {
		tr.Jobs[i].ID, tr.Jobs[i].App, tr.Jobs[i].Submit = app+strconv.Itoa(i), app, float64(1000*i)
	}
	for name, tc := range map[string]struct {
		info sim.Info
		want []int
	}{
		"blind": {sim.Info{}, []int{0, 0, 0}},
		"kinds": {sim.Info{Kinds: true}, []int{0, 4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var saw []policy.Job
			run(t, sim.Config{
				Nodes: sim.Uniform(2, 4, ""), Trace: tr, Info: tc.info,
				Policy: script{at: []float64{0, 10, 20, 30}, size: []int{1, 2, 4, 4}, saw: &saw},
			})
			first := map[string]speedup.Curve{}
			for _, j := range saw {
				if _, ok := first[j.ID]; !ok {
					first[j.ID] = j.Curve
				}
			}
			for i, id := range []string{"resnet0", "resnet1", "other2"} {
				c := first[id]
				must.Eq(t, tc.want[i], c.Largest(), must.Sprint(id))
				must.False(t, c.Measured())
			}
			c := first["resnet1"]
			if tc.info.Kinds {
				must.InDelta(t, 4, c.Speedup(4)/c.Speedup(1), 1e-9) // the prior would have 3.5
			}
		})
	}
}

func TestRun_NoiseFallsWithSteps(t *testing.T) {
	error3, error99 := 0.0, 0.0
	for seed := range uint64(40) {
		var saw []policy.Job
		run(t, sim.Config{
			Nodes: sim.Uniform(1, 1, ""), Trace: one(400, 1), Info: sim.Info{Noise: 0.2}, Seed: seed,
			Policy: script{at: []float64{0, 300}, size: []int{1, 1}, saw: &saw},
		})
		error3 += math.Abs(saw[1].Curve.Time(1)-1) / 40
		error99 += math.Abs(saw[2].Curve.Time(1)-1) / 40
	}
	must.Between(t, 0.04, error3, 0.2)
	must.Less(t, error3/3, error99)
}

func TestRun_TypesHaveSpeeds(t *testing.T) {
	tr := one(100, 4)
	tr.Jobs[0].Type = "fast"
	res := run(t, sim.Config{
		Nodes: append(sim.Uniform(1, 4, "slow"), sim.Uniform(1, 2, "fast")...), Trace: tr,
		Policy: script{at: []float64{0}, size: []int{2}}, Speed: map[string]float64{"fast": 5},
	})
	near(t, 10, res.Jobs[0].Done, "completion")
}

func TestRun_PlacesWorkersTogether(t *testing.T) {
	// Two jobs of 3 on nodes of 4, then one of 2: packed, only the last has
	// to be scattered, and pays for it.
	curve, err := trace.NewCurve([]float64{1})
	must.NoError(t, err)
	tr := &trace.Trace{}
	for i, n := range []int{3, 3, 2} {
		tr.Jobs = append(tr.Jobs, trace.Job{ID: strconv.Itoa(i), Min: n, Max: n, Preferred: n, Weight: 1, PerWorker: 1, Steps: 100, Curve: curve})
	}
	res := run(t, sim.Config{Nodes: sim.Uniform(2, 4, ""), Trace: tr, Policy: fifo{}, Scatter: 0.5})
	must.Eq(t, []float64{100, 100, 150}, []float64{res.Jobs[0].Done, res.Jobs[1].Done, res.Jobs[2].Done})
	must.Eq(t, 300, res.Scattered)
}

func TestRun_WorkersNeedWholeNodes(t *testing.T) {
	// 2 GPUs are free, on two nodes. A worker of 2 GPUs fits nowhere until the first
	// job ends, although the policy counts these as room.
	curve, err := trace.NewCurve([]float64{1})
	must.NoError(t, err)
	tr := &trace.Trace{Jobs: []trace.Job{
		{ID: "wide", Min: 3, Max: 3, Preferred: 3, Weight: 1, PerWorker: 2, Steps: 100, Curve: curve},
		{ID: "pair", Submit: 1, Min: 1, Max: 1, Preferred: 1, Weight: 1, PerWorker: 2, Steps: 10, Curve: curve},
	}}
	res := run(t, sim.Config{Nodes: append(sim.Uniform(2, 3, ""), trace.Node{ID: "x", GPUs: 2}), Trace: tr, Policy: fifo{}})
	must.Eq(t, 110, res.Jobs[1].Done)
	must.Positive(t, res.Refused)
}

func TestRun_IntervalGathersEvents(t *testing.T) {
	tr := trace.Synthetic{Jobs: 200, Seed: 3, Load: 1}.Trace()
	every := run(t, sim.Config{Nodes: sim.Uniform(16, 4, ""), Trace: tr, Policy: fifo{}, Info: sim.Info{Curves: true}})
	some := run(t, sim.Config{Nodes: sim.Uniform(16, 4, ""), Trace: tr, Policy: fifo{}, Info: sim.Info{Curves: true}, Interval: 600})
	must.Less(t, every.Decisions, some.Decisions)
	must.LessEq(t, some.Makespan/600+2, float64(some.Decisions))
}

func TestRun_HoldLeavesAJobAlone(t *testing.T) {
	res := run(t, sim.Config{
		Nodes: sim.Uniform(2, 4, ""), Trace: one(300, 8), Hold: 30,
		Policy: script{at: []float64{0, 10, 100, 110}, size: []int{1, 4, 2, 8}},
	})
	// The change wanted at 10 s waits until 30 s, and that of 110 s until 130 s.
	must.Eq(t, []sim.Change{{0, 1, 1}, {30, 4, 4}, {97.5, 0, 0}}, res.Jobs[0].History)
}

func TestRun_StarvationEnds(t *testing.T) {
	for name, p := range map[string]policy.Policy{
		"never starts": script{},
		"only wakes":   waker{},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, sim.Config{Nodes: sim.Uniform(1, 1, ""), Trace: one(10, 1), Policy: p})
			must.False(t, res.Jobs[0].Ended)
			must.Eq(t, 1, sim.Summarize(res).Unfinished)
		})
	}
}

// waker asks to be woken, and does nothing.
type waker struct{}

func (waker) Name() string { return "waker" }

func (waker) Allocate(s *policy.Snapshot) policy.Decision {
	return policy.Decision{Allocations: []policy.Allocation{{Job: s.Jobs[0].ID}}, RequeueAt: s.Now + 1}
}

// thrasher resizes so often that no step is ever made.
type thrasher struct{}

func (thrasher) Name() string { return "thrasher" }

func (thrasher) Allocate(s *policy.Snapshot) policy.Decision {
	return policy.Decision{Allocations: []policy.Allocation{{Job: s.Jobs[0].ID, Count: 3 - max(1, s.Jobs[0].Count)}}, RequeueAt: s.Now + 5}
}

func TestRun_ThrashingEnds(t *testing.T) {
	res := run(t, sim.Config{
		Nodes: sim.Uniform(1, 2, ""), Trace: one(10, 2), Policy: thrasher{}, Resize: sim.ResizeCost{Constant: 10},
	})
	must.False(t, res.Jobs[0].Ended)
}
