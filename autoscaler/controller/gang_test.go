// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
)

// serverMHz is more than half of what a node of the stand-in has.
const serverMHz = 40000

// gang registers a job of up to two servers without GPUs, each for four workers with one.
func (w *world) gang(id string, edit func(*nomadtest.Job)) {
	j := nomadtest.Job{
		ID: id, Max: 8, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"gang": []any{"ps", "workers"}, "ratio": "1:4"}}},
		Others:  []nomadtest.Group{{Name: "ps", Max: 2, CPU: serverMHz}},
	}
	edit(&j)
	w.nomad.Register(j)
}

// eventuallyGroups waits for the counts and the running workers of a gang.
func (w *world) eventuallyGroups(id string, servers, workers int) {
	w.t.Helper()
	want := map[string]int{"ps": servers, "workers": workers}
	must.Wait(w.t, wait.InitialSuccess(
		wait.ErrorFunc(func() error {
			counts, live := w.nomad.GroupCounts(id)
			if fmt.Sprint(counts) != fmt.Sprint(want) || fmt.Sprint(live) != fmt.Sprint(want) {
				return fmt.Errorf("counts are %v, %v run, wanted %v", counts, live, want)
			}
			return nil
		}),
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// Servers without GPUs cost no slots. They bound their gang by their CPU, also on nodes
// without GPUs.
func TestController_GangWithoutSlots(t *testing.T) {
	w := newWorld(t, 1, 8)
	a, _ := w.start(w.config())
	w.gang("g", func(*nomadtest.Job) {})
	w.eventuallyGroups("g", 1, 4)
	becomes(t, a, "g", func(j *api.JobStatus) bool { return j.Running == 5 && j.Requests.Slots == 4 && j.Slots() == 4 })
	must.Eq(t, 4, a.Status().Pools[0].Used)

	t.Log("a node without GPUs has room for the second server")
	w.nomad.AddNodes(1, 0)
	w.eventuallyGroups("g", 2, 8)
	becomes(t, a, "g", func(j *api.JobStatus) bool { return j.Slots() == 8 })

	t.Log("the other job gets the slots of whole units")
	w.job("x", 1, 8)
	w.eventuallyGroups("g", 1, 4)
	w.eventually(map[string]int{"x": 4})
}

// If Nomad places the workers and not their server, they are taken back.
func TestController_GangWhoseServerFindsNoPlace(t *testing.T) {
	w := newWorld(t, 1, 8)
	var started atomic.Bool
	w.nomad.OnScale = func(job, group string, _, to int) {
		if job == "g" && group == "workers" && to > 0 {
			started.Store(true)
		}
	}
	c := w.config()
	c.Planner.PlacementTimeout = time.Second
	w.start(c)
	w.gang("g", func(j *nomadtest.Job) { j.Others[0].Unplaceable = true })
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(started.Load), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.eventuallyGroups("g", 0, 0)
}
