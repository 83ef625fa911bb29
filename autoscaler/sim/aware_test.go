// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// planned is a policy with a timetable: the size of each job from each time on.
type planned map[string][]struct {
	at   float64
	size int
}

func (planned) Name() string { return "planned" }

func (p planned) Allocate(s *policy.Snapshot) policy.Decision {
	d := policy.Decision{}
	for i := range s.Jobs {
		a := policy.Allocation{Job: s.Jobs[i].ID}
		for _, step := range p[a.Job] {
			if s.Now >= step.at {
				a.Count = step.size
			} else if d.RequeueAt == 0 || step.at < d.RequeueAt {
				d.RequeueAt = step.at
			}
		}
		d.Allocations = append(d.Allocations, a)
	}
	return d
}

// twoApps has the step times of one application that is twice as fast on one node, and of
// one that is twice as fast on two.
const twoApps = `application,batch_size,placement,step_time_s
close,1,1,4
close,1,2,1
close,1,1+1,2
close,1,3,1
close,1,2+1,2
apart,1,1,4
apart,1,2,2
apart,1,1+1,1
`

// placed returns jobs of these applications with 100 steps each, all from the start.
func placed(t *testing.T, apps ...string) *trace.Trace {
	t.Helper()
	times, err := trace.ReadPlacements(strings.NewReader(twoApps), "times.csv")
	must.NoError(t, err)
	curve, err := trace.NewCurve([]float64{4, 1, 1, 1})
	must.NoError(t, err)
	tr := &trace.Trace{Name: "t"}
	for i, app := range apps {
		tr.Jobs = append(tr.Jobs, trace.Job{
			ID: string(rune('a' + i)), App: app, Curve: curve, Min: 1, Max: 4, Preferred: 2, Steps: 100, Weight: 1, PerWorker: 1, Preemptible: true,
		})
	}
	must.NoError(t, times.Apply(tr))
	return tr
}

// TestAware_Starts places a job where it is faster by exact step times, or close together
// if no step times are known.
func TestAware_Starts(t *testing.T) {
	for name, tc := range map[string]struct {
		app    string
		curves bool
		done   float64
	}{
		"faster on one node":     {"close", true, 100},
		"faster on two":          {"apart", true, 100},
		"nothing known of where": {"apart", false, 200},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, sim.Config{
				Trace: placed(t, tc.app), Nodes: sim.Uniform(2, 4, ""), Placement: sim.Aware,
				Info: sim.Info{Curves: tc.curves}, Policy: planned{"a": {{0, 2}}},
			})
			must.Eq(t, tc.done, res.Jobs[0].Done)
		})
	}
}

// TestAware_Shrinks keeps the workers of a job where they are faster: of 2+2 workers, two
// on one node, or one on each.
func TestAware_Shrinks(t *testing.T) {
	for app, left := range map[string]float64{"close": 97.5, "apart": 95} {
		t.Run(app, func(t *testing.T) {
			nodes := sim.Uniform(2, 2, "")
			res := run(t, sim.Config{
				Trace: placed(t, app), Nodes: nodes, Placement: sim.Aware,
				Info: sim.Info{Curves: true}, Policy: planned{"a": {{0, 4}, {5, 2}}},
			})
			must.Eq(t, 5+left, res.Jobs[0].Done)
		})
	}
}

// TestMigrate has two nodes of three GPUs: a and b leave one free on each, so that c starts
// on both. When a has gone, c moves together, if that is worth two gaps.
//
//	node 1   a a c      . . c      c c .
//	node 2   b b c  ─>  b b c  ─>  b b .
func TestMigrate(t *testing.T) {
	for name, tc := range map[string]struct {
		placement sim.Placement
		gap       float64
		moves     int
		done      float64
	}{
		// a has ended at 11 s, when c has 95 of its steps of 2 s to go.
		"moves":           {sim.Migrate, 1, 1, 11 + 2 + 95},
		"costs too much":  {sim.Migrate, 60, 0, 60 + 200},
		"only new places": {sim.Aware, 1, 0, 1 + 200},
	} {
		t.Run(name, func(t *testing.T) {
			tr := placed(t, "close", "close", "close")
			tr.Jobs[0].Steps, tr.Jobs[1].Steps = 10, 1000
			res := run(t, sim.Config{
				Trace: tr, Nodes: sim.Uniform(2, 3, ""), Placement: tc.placement,
				Info: sim.Info{Curves: true, Remaining: true}, Resize: sim.ResizeCost{Constant: tc.gap},
				Policy: planned{"a": {{0, 2}}, "b": {{0, 2}}, "c": {{0, 2}}},
			})
			must.Eq(t, tc.moves, res.Jobs[2].Moves)
			must.Eq(t, tc.done, res.Jobs[2].Done)
		})
	}
}

// TestCrossRack runs a job on two nodes of one rack or of two racks.
func TestCrossRack(t *testing.T) {
	nodes := sim.Uniform(2, 2, "")
	nodes[0].Rack, nodes[1].Rack = "r1", "r2"
	tr := one(100, 4)
	tr.Jobs[0].Preferred = 4
	res := run(t, sim.Config{Nodes: nodes, Trace: tr, Policy: fifo{}, CrossRack: 0.2})
	must.InDelta(t, 30, res.Jobs[0].Done, 1e-9)
	nodes[1].Rack = "r1"
	res = run(t, sim.Config{Nodes: nodes, Trace: tr, Policy: fifo{}, CrossRack: 0.2})
	must.Eq(t, 25, res.Jobs[0].Done)
}

// TestNomad places the workers of a job far apart and on nodes in use, as Nomad does for a
// group, and equally in each run.
func TestNomad(t *testing.T) {
	tr := placed(t, "apart")
	res := run(t, sim.Config{Trace: tr, Nodes: sim.Uniform(2, 4, ""), Placement: sim.Nomad, Policy: planned{"a": {{0, 2}}}})
	must.Eq(t, 100, res.Jobs[0].Done, must.Sprint("two workers are on one node"))
}
