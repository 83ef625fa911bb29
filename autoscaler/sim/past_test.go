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

const (
	week = 7 * 24 * 3600.0
	hour = 3600.0
)

// overTime runs a cluster of 16 GPUs with two queues, each with one job that could use them
// all. Queue a has it from the start, b from a time on.
func overTime(t *testing.T, a, b queue.Queue, from, seconds float64, change ...func(*sim.Config)) *sim.Result {
	a.Name, b.Name, a.Weight, b.Weight = "a", "b", queue.WeightUnit, queue.WeightUnit
	tree, problems := queue.New([]queue.Queue{a, b})
	must.SliceEmpty(t, problems)
	curve, err := trace.PowerCurve(1, 1, 16)
	must.NoError(t, err)
	info, err := sim.ParseClass("oracle", 0)
	must.NoError(t, err)
	cfg := sim.Config{
		Trace: &trace.Trace{Jobs: []trace.Job{
			{ID: "a1", Tenant: "a", Min: 1, Max: 16, Preferred: 16, Steps: 16 * (seconds + from), Curve: curve, Preemptible: true},
			{ID: "b1", Tenant: "b", Submit: from, Min: 1, Max: 16, Preferred: 16, Steps: 8 * seconds, Curve: curve, Preemptible: true},
		}},
		Nodes: sim.Uniform(2, 8, "gpu"), Queues: tree, Policy: queued.New(tree, parse(t, "elastic-fifo"), nil), Info: info, History: true,
	}
	for _, c := range change {
		c(&cfg)
	}
	res, err := sim.Run(t.Context(), cfg)
	must.NoError(t, err)
	return res
}

// held returns the GPUs of a job at a time, and the GPU-hours that it held until then.
func held(res *sim.Result, id string, at float64) (gpus int, hours float64) {
	for i := range res.Jobs {
		if res.Jobs[i].ID != id {
			continue
		}
		last := 0.0
		for _, c := range res.Jobs[i].History {
			if c.Time > at {
				break
			}
			hours += float64(gpus) * (c.Time - last) / hour
			gpus, last = c.GPUs, c.Time
		}
		hours += float64(gpus) * (at - last) / hour
	}
	return gpus, hours
}

// Of two queues, one used the cluster alone for a week. Afterwards the other has more, then
// less and less more, until both have the same. No GPU moves there and back.
func TestRun_SharesOverTime(t *testing.T) {
	res := overTime(t, queue.Queue{Guarantee: 2, HalfLife: week}, queue.Queue{Guarantee: 2, HalfLife: week}, week, 8*week)
	a, _ := held(res, "a1", week-1)
	must.Eq(t, 16, a)
	a, _ = held(res, "a1", week+1)
	b, _ := held(res, "b1", week+1)
	must.Eq(t, []int{2, 14}, []int{a, b}) // the guarantee of a is untouched
	before := 14
	for at := week + 1; at < 5*week; at += hour {
		a, _ = held(res, "a1", at)
		b, _ = held(res, "b1", at)
		must.Eq(t, 16, a+b)
		must.LessEq(t, before, b)
		must.GreaterEq(t, before-1, b)
		before = b
	}
	must.Eq(t, 8, before)

	t.Log("without a half-life, each has half at once")
	res = overTime(t, queue.Queue{Guarantee: 2}, queue.Queue{Guarantee: 2}, week, week)
	b, _ = held(res, "b1", week+1)
	must.Eq(t, 8, b)
}

// For a queue that wants GPUs half of the time, a half-life brings its use closer to half
// than shares at each moment do.
func TestRun_SharesOfARareUser(t *testing.T) {
	use := func(halfLife float64) float64 {
		curve, err := trace.PowerCurve(1, 1, 16)
		must.NoError(t, err)
		res := overTime(t, queue.Queue{HalfLife: halfLife}, queue.Queue{HalfLife: halfLife}, week, week, func(c *sim.Config) {
			c.Trace.Jobs = c.Trace.Jobs[:1]
			c.Trace.Jobs[0].Steps = 1e9
			for d := range 28 { // each day, what takes 16 GPUs 9 hours
				c.Trace.Jobs = append(c.Trace.Jobs, trace.Job{
					ID: "b" + string(rune('a'+d)), Tenant: "b", Submit: float64(d) * 24 * hour, Min: 1, Max: 16, Preferred: 16, Steps: 16 * 9 * hour, Curve: curve, Preemptible: true,
				})
			}
		})
		wait := 0.0
		for i := range res.Jobs[1:] {
			wait += res.Jobs[i+1].JCT()
		}
		return wait / 28 / hour
	}
	now, overTime := use(0), use(week)
	must.Between(t, 17.9, now, 18.1)       // 8 GPUs at any time
	must.Between(t, 10, overTime, 0.8*now) // up to 16
}

// In the simulator, too, a queue loses its GPUs when its budget is spent, and more
// expensive GPUs spend it sooner.
func TestRun_Budgets(t *testing.T) {
	budget := func(stop bool) *queue.Budget { return &queue.Budget{SlotHours: 160, Per: queue.Month, Stop: stop} }
	for name, tc := range map[string]struct {
		cost   float64
		stop   bool
		b      float64 // when b comes
		at     float64
		a1, b1 int
	}{
		"before it is spent":         {cost: 1, b: 100 * hour, at: 9.9 * hour, a1: 16},
		"it stops":                   {cost: 1, stop: true, b: 100 * hour, at: 10.1 * hour},
		"alone, it borrows":          {cost: 1, b: 100 * hour, at: 99 * hour, a1: 16},
		"the other comes":            {cost: 1, b: 100 * hour, at: 101 * hour, a1: 0, b1: 16},
		"it stops earlier":           {cost: 4, stop: true, b: 100 * hour, at: 2.6 * hour},
		"but not before":             {cost: 4, stop: true, b: 100 * hour, at: 2.4 * hour, a1: 16},
		"the second month, of 1970 ": {cost: 1, stop: true, b: 100 * hour, at: 31*24*hour + 1, a1: 12, b1: 4},
	} {
		t.Run(name, func(t *testing.T) {
			res := overTime(t, queue.Queue{Guarantee: 8, Budget: budget(tc.stop)}, queue.Queue{}, tc.b, 8*week, func(c *sim.Config) {
				c.SlotCost = func(string) float64 { return tc.cost }
			})
			a, _ := held(res, "a1", tc.at)
			b, _ := held(res, "b1", tc.at)
			must.Eq(t, []int{tc.a1, tc.b1}, []int{a, b})
		})
	}
}
