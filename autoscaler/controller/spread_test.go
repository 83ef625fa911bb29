// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// The steps of jobs are measured on one rack and on two. One job is slower on two racks, one
// is not, one was never on two, and one is of the kind of the first.
func TestSpread_AsMeasured(t *testing.T) {
	c := &Controller{cfg: config.Default(), history: history.New(), jobs: map[identity.JobKey]*job{}}
	c.cfg.Pools["gpu"] = config.Pool{Name: "gpu", Aware: true, MaxMigrations: 6}
	now := time.Unix(1_800_000_000, 0)
	rings := map[string]float64{}
	steps := map[string][2]float64{} // counted, and their seconds
	// observe places a job with counts in the two racks, and reports 30 steps of a time
	// each. The placement is not certain for the first of them.
	observe := func(id, kind string, step float64, counts ...int) (*planner.Job, *api.Spread) {
		v := twoRacks(t, counts...)
		key := identity.JobKey{Namespace: "default", ID: id}
		v.Jobs[0].Key = key
		f := cluster.Facts{Spec: &jobspec.Spec{Kind: kind}, Observation: history.Observation{Running: 4, Slots: 1, Created: 1, Where: history.Where{Workers: 4}}}
		if counts[0] > 0 && counts[1] > 0 {
			f.Where.Crossing = rackSpread(2)
		}
		v.Facts = []cluster.Facts{f}
		c.observe(v, nil, now)
		rings[id]++
		for range 3 {
			now = now.Add(10 * time.Second)
			all := steps[id]
			all[0], all[1] = all[0]+10, all[1]+10*step
			steps[id] = all
			c.history.Learn(c.history.Jobs[key], history.KindKey(key, kind), &history.Progress{
				Size: 4, StepSeconds: map[string]history.StepTime{"4": {N: int(all[0]), Mean: all[1] / all[0]}},
				Resizes: []history.Resize{{From: 4, To: 4, Cause: "resize", GapSeconds: new(0.3), Time: rings[id]}},
			}, 1, now)
		}
		c.observe(v, nil, now)
		return &v.Jobs[0], report.Status(c.result(v, make([]planner.Want, 1), &planner.Plan{}, true, now)).Jobs[0].Spread
	}
	oneRack, otherRack := []int{4, 0}, []int{0, 4}

	j, s := observe("suffers", "bert", 2, 2, 2)
	must.Eq(t, &api.Spread{Workers: 4, Crossing: rackSpread(2)}, s, must.Sprint("nothing to compare with"))
	must.Eq(t, 1, j.Mobility.Slowdown(oneRack))
	_, s = observe("suffers", "bert", 1, 4, 0)
	must.Eq(t, migrate.Crossing{}, s.Crossing)
	must.Len(t, 1, s.Costs)
	cost := s.Costs[0]
	must.Eq(t, rackSpread(2), cost.Crossing)
	must.InDelta(t, 2, cost.Slowdown, 0.01)
	must.InDelta(t, 2, cost.StepTime, 0.01)
	must.InDelta(t, 1, cost.Than.StepTime, 0.01)
	must.Eq(t, 4, cost.Size)
	j, _ = observe("suffers", "bert", 2, 2, 2)
	must.InDelta(t, 0.5, j.Mobility.Slowdown(oneRack), 0.01)
	must.InDelta(t, 0.5, j.Mobility.Slowdown(otherRack), 0.01)
	must.Eq(t, 1, j.Mobility.Slowdown([]int{2, 2}))
	must.Eq(t, 0.3, j.Mobility.Gap)

	observe("careless", "resnet", 1, 2, 2)
	observe("careless", "resnet", 1.001, 4, 0)
	j, s = observe("careless", "resnet", 1, 2, 2)
	must.InDelta(t, 1, s.Costs[0].Slowdown, 0.01)
	must.InDelta(t, 1, j.Mobility.Slowdown(oneRack), 0.01)

	j, s = observe("first", "gpt", 1, 2, 2)
	must.SliceEmpty(t, s.Costs)
	must.Eq(t, 1, j.Mobility.Slowdown(oneRack))

	t.Log("the second job of a kind knows it before it was there itself")
	j, s = observe("second", "bert", 30, 2, 2)
	must.InDelta(t, 0.5, j.Mobility.Slowdown(oneRack), 0.01)
	must.Len(t, 1, s.Costs)
	must.True(t, s.Costs[0].OfKind)
	must.InDelta(t, 2, s.Costs[0].Slowdown, 0.01)
	must.Zero(t, s.Costs[0].StepTime, must.Sprint("another job's times are not its own"))

	t.Log("a pool that has lost its topology")
	c.cfg.Pools["gpu"] = config.Pool{Name: "gpu"}
	_, s = observe("suffers", "bert", 1, 4, 0)
	must.Nil(t, s)
}

// A job runs on two nodes and then on one, and its agent reports the steps.
func TestSpread_FromNomadAndTheTraining(t *testing.T) {
	var mu sync.Mutex
	steps, seconds, step, ring := 0.0, 0.0, 1.5e-5, 1.0 // more than there is time for is not believed
	agent := newAnswering(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		steps, seconds = steps+20, seconds+20*step
		saying(fmt.Sprintf(`{"job":"a","namespace":"default","size":4,"step_seconds":{"4":{"mean":%g,"n":%g}},
			"resizes":[{"from":4,"to":4,"cause":"resize","gap_seconds":0.3,"time":%g}]}`, seconds/steps, steps, ring))(w, r)
	})
	w := newWorld(t, 2, 4)
	w.nomad.Register(nomadtest.Job{ID: "other", Count: 2, GPUs: 1, CPU: 100, Priority: 50})
	w.nomad.Register(nomadtest.Job{ID: "a", Max: 4, GPUs: 1, CPU: 100, Priority: 50, Service: "a", At: []string{agent.at},
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": 4}}}})
	c := w.config()
	c.Planner.Progress = 2 * time.Millisecond
	c.Leader.TTL = time.Minute // another leader would know what was saved only
	c.Pools["default"] = config.Pool{Name: "default", Policy: "elastic-fifo", Device: "gpu", Levels: topology.Default(), Aware: true}
	a, _ := w.start(c)
	eventually := func(is func(*api.JobStatus) bool) *api.JobStatus {
		t.Helper()
		var js api.JobStatus
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			for _, j := range a.Status().Jobs {
				js = j
			}
			return js.ID == "a" && is(&js)
		}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
		return &js
	}
	w.eventually(map[string]int{"a": 4})
	eventually(func(j *api.JobStatus) bool {
		return j.Spread != nil && j.Spread.Outer() == nodeSpread(2) && j.Spread.Workers == 4
	})
	asked(t, agent, 20)

	t.Log("it is moved to one node by hand")
	must.NoError(t, w.nomad.Scale("a", 0))
	w.nomad.Stop("other")
	eventually(func(j *api.JobStatus) bool { return j.Running == 0 })
	mu.Lock()
	step, ring = 1e-5, 2
	mu.Unlock()
	must.NoError(t, w.nomad.Scale("a", 4))
	js := eventually(func(j *api.JobStatus) bool { return j.Spread != nil && len(j.Spread.Costs) > 0 })
	must.Eq(t, migrate.Crossing{}, js.Spread.Crossing)
	must.Eq(t, nodeSpread(2), js.Spread.Costs[0].Crossing)
	must.InDelta(t, 1.5, js.Spread.Costs[0].Slowdown, 0.01)
}
