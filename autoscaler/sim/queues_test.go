// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy/queued"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// Of two teams, one gets its whole guarantee as soon as it asks for it, even from a job
// that was resized a moment ago.
func TestRun_Queues(t *testing.T) {
	tree, problems := queue.New([]queue.Queue{
		{Name: "a", Namespaces: []string{"team-a"}, Guarantee: 6, Weight: queue.WeightUnit},
		{Name: "b", Weight: queue.WeightUnit},
	})
	must.SliceEmpty(t, problems)
	curve, err := trace.PowerCurve(1, 1, 8)
	must.NoError(t, err)
	tr := &trace.Trace{Jobs: []trace.Job{
		{ID: "b1", Tenant: "b", Min: 1, Max: 8, Preferred: 8, Steps: 800, Curve: curve},
		{ID: "a1", Tenant: "team-a", Submit: 2, Min: 1, Max: 8, Preferred: 8, Steps: 60, Curve: curve},
	}}
	info, err := sim.ParseClass("oracle", 0)
	must.NoError(t, err)
	cfg := sim.Config{
		Trace: tr, Nodes: sim.Uniform(2, 4, ""), Queues: tree, Policy: queued.New(tree, parse(t, "elastic-fifo"), nil), Info: info, Hold: 5,
	}
	res, err := sim.Run(t.Context(), cfg)
	must.NoError(t, err)
	must.Len(t, 2, res.Queues)
	a, b := res.Queues[0], res.Queues[1]
	const took = 60.0 / 7 // seconds: its guarantee, and half of the rest
	for _, v := range []struct{ want, got float64 }{
		{took, a.JCT}, {0, a.Wait}, {60, a.Used}, {60, a.Entitled}, {1, a.Share()}, {800, b.Used}, {800, b.Entitled},
	} {
		must.InDelta(t, v.want, v.got, 1e-6)
	}
	must.Eq(t, []string{"a", "b"}, []string{a.Name, b.Name})
	must.Eq(t, []int{1, 0, 0}, []int{a.Jobs, a.TakenBack, a.Evictions})
	must.Eq(t, []int{1, 7, 0}, []int{b.Jobs, b.TakenBack, b.Evictions})

	_, err = sim.RunTicks(t.Context(), cfg, 10)
	must.ErrorContains(t, err, "no queues in ticks")
}

// A job that is stopped at its queue's max_time has ended, and others get its GPUs.
func TestRun_StopsJobs(t *testing.T) {
	tree, problems := queue.New([]queue.Queue{{Name: "a", Weight: queue.WeightUnit, MaxTime: 10, Stops: true}, {Name: "b", Weight: queue.WeightUnit}})
	must.SliceEmpty(t, problems)
	curve, err := trace.PowerCurve(1, 1, 8)
	must.NoError(t, err)
	tr := &trace.Trace{Jobs: []trace.Job{
		{ID: "a1", Tenant: "a", Min: 4, Max: 4, Preferred: 4, Steps: 1000, Curve: curve},
		{ID: "b1", Tenant: "b", Min: 8, Max: 8, Preferred: 8, Steps: 80, Curve: curve},
	}}
	info, err := sim.ParseClass("oracle", 0)
	must.NoError(t, err)
	res, err := sim.Run(t.Context(), sim.Config{
		Trace: tr, Nodes: sim.Uniform(2, 4, ""), Queues: tree, Policy: queued.New(tree, parse(t, "elastic-fifo"), nil), Info: info, Hold: 60,
	})
	must.NoError(t, err)
	for k, want := range []float64{10, 20} {
		must.True(t, res.Jobs[k].Ended)
		must.InDelta(t, want, res.Jobs[k].JCT(), 1e-6)
	}
}
