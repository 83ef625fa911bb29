// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"math"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// TestRun_Conserves recomputes every job's steps and service from the history of its sizes.
// Each step is made exactly once, and each GPU-second counts once.
func TestRun_Conserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, false)
		res, err := sim.Run(t.Context(), cfg)
		must.NoError(t, err)
		held := 0.0
		for i := range res.Jobs {
			r, j := &res.Jobs[i], &cfg.Trace.Jobs[i]
			must.True(t, r.Ended, must.Sprintf("%s did not complete under %s", r.ID, cfg.Policy.Name()))
			steps, service := 0.0, 0.0
			for k, h := range r.History {
				until := r.Done
				if k+1 < len(r.History) {
					until = r.History[k+1].Time
				}
				if h.Workers == 0 {
					continue
				}
				must.Eq(t, j.GPUs(h.Workers), h.GPUs)
				trained := math.Max(0, until-h.Time-cfg.Resize.Gap(h.Workers))
				steps += trained / j.StepTime(h.Workers)
				service += (until - h.Time) * float64(h.GPUs)
			}
			near(t, j.Steps, steps, "steps of "+r.ID)
			near(t, service, r.Attained, "service of "+r.ID)
			held += r.Attained
		}
		near(t, held, res.Held, "GPU-seconds held")
	})
}

// TestRun_NeverDoubleBooks follows the cluster's use over time: the held GPUs are those
// that jobs hold, never more than exist, and time only moves on.
func TestRun_NeverDoubleBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, rapid.Bool().Draw(t, "faults"))
		res, err := sim.Run(t.Context(), cfg)
		must.NoError(t, err)
		for i := range res.Jobs {
			r := &res.Jobs[i]
			last := math.Inf(-1)
			for _, h := range r.History {
				must.Greater(t, last, h.Time)
				must.GreaterEq(t, r.Submit, h.Time)
				last = h.Time
				if h.Workers != 0 {
					must.Between(t, cfg.Trace.Jobs[i].Min, h.Workers, cfg.Trace.Jobs[i].Max)
				}
			}
			if r.Ended {
				must.GreaterEq(t, r.Start, r.Done)
				must.Eq(t, r.Done, last)
			}
		}
		before := math.Inf(-1)
		for _, u := range res.Usage {
			must.Greater(t, before, u.Time)
			before = u.Time
			must.LessEq(t, u.Capacity, u.Held)
			sum, running := 0, 0
			for i := range res.Jobs {
				if n := sizeAt(res.Jobs[i].History, u.Time); n > 0 {
					sum += n
					running++
				}
			}
			must.Eq(t, sum, u.Held)
			must.Eq(t, running, u.Running)
		}
	})
}

func sizeAt(history []sim.Change, t float64) int {
	gpus := 0
	for _, h := range history {
		if h.Time > t {
			break
		}
		gpus = h.GPUs
	}
	return gpus
}

// TestRun_SameSeedSameResult runs everything twice.
func TestRun_SameSeedSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, rapid.Bool().Draw(t, "faults"))
		a, err := sim.Run(t.Context(), cfg)
		must.NoError(t, err)
		b, err := sim.Run(t.Context(), cfg)
		must.NoError(t, err)
		must.Eq(t, a, b)
	})
}

// TestRun_EveryJobCompletes: every job completes, even with failures, as long as nodes come
// back. This fails if a policy starves a job forever, or if the simulator forgets one.
func TestRun_EveryJobCompletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t, true)
		res, err := sim.Run(t.Context(), cfg)
		must.NoError(t, err)
		for i := range res.Jobs {
			must.True(t, res.Jobs[i].Ended, must.Sprintf("%s did not complete under %s", res.Jobs[i].ID, cfg.Policy.Name()))
		}
	})
}

// TestRun_OneJobAlone compares one job's times with a calculation by hand.
func TestRun_OneJobAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 16).Draw(t, "workers")
		steps := rapid.Float64Range(1, 1e6).Draw(t, "steps")
		step := rapid.Float64Range(0.001, 100).Draw(t, "step time")
		gap := rapid.Float64Range(0, 120).Draw(t, "gap")
		submit := rapid.Float64Range(0, 1e6).Draw(t, "submit")
		curve, err := trace.PowerCurve(step, 1, n)
		must.NoError(t, err)
		res, err := sim.Run(t.Context(), sim.Config{
			Nodes: sim.Uniform(4, 4, ""), Policy: fifo{}, Resize: sim.ResizeCost{Constant: gap},
			Trace: &trace.Trace{Jobs: []trace.Job{{
				ID: "only", Min: n, Max: n, Preferred: n, Weight: 1, PerWorker: 1,
				Submit: submit, Steps: steps, Curve: curve,
			}}},
		})
		must.NoError(t, err)
		near(t, gap+steps*step/float64(n), res.Jobs[0].JCT(), "JCT")
		near(t, submit, res.Jobs[0].Start, "start")
	})
}

// near allows for rounding.
func near(t must.T, want, got float64, what string) {
	t.Helper()
	if math.Abs(want-got) > 1e-6*math.Max(1, math.Abs(want)) {
		t.Fatalf("%s: want %v, got %v", what, want, got)
	}
}
