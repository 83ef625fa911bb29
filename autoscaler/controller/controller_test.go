// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

func TestController_SharesTheClusterAndGrowsAgain(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.nomad.StopDelay = 30 * time.Millisecond
	w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	w.job("b", 2, 8)
	w.eventually(map[string]int{"a": 4, "b": 4})
	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 8})
}

func TestController_QueuesWhatDoesNotFit(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	w.job("a", 3, 4)
	w.eventually(map[string]int{"a": 4})
	w.job("b", 2, 4)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		for _, j := range a.Status().Jobs {
			if j.ID == "b" {
				return j.State == api.StateWaiting
			}
		}
		return false
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.nomad.Purge("a")
	w.eventually(map[string]int{"b": 4})
}

func TestController_LeavesACompletedJobAlone(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 1, 8)
	w.job("b", 1, 8)
	w.eventually(map[string]int{"a": 4, "b": 4})
	_, scalesBefore := w.nomad.Calls()
	var touched atomic.Bool
	w.nomad.OnScale = func(job, _ string, _, _ int) {
		if job == "a" {
			touched.Store(true)
		}
	}
	must.True(t, w.nomad.Complete("a"))
	w.eventually(map[string]int{"b": 5}) // the completed worker's slot
	must.False(t, touched.Load())
	_, scales := w.nomad.Calls()
	must.Greater(t, scalesBefore, scales)

	// Registered again, the job is alive again.
	w.nomad.Purge("b")
	w.job("a", 1, 6)
	w.eventually(map[string]int{"a": 6})
}

func TestController_ACountSetByHandWins(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Planner.ManualHold = 700 * time.Millisecond
	w.start(c)
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	must.NoError(t, w.nomad.Scale("a", 3))
	start := time.Now()
	w.eventually(map[string]int{"a": 8})
	must.GreaterEq(t, c.Planner.ManualHold, time.Since(start))
}

func TestController_ARegistrationIsRepaired(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	w.job("a", 1, 8) // count 0 again, as in its file
	w.eventually(map[string]int{"a": 8})
}

func TestController_MakesRoomForOthers(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 2, 8)
	w.eventually(map[string]int{"a": 8})
	w.nomad.Register(nomadtest.Job{ID: "inference", Count: 3, Max: 3, GPUs: 1, CPU: 100, Priority: 50})
	w.eventually(map[string]int{"a": 5})
	w.nomad.Register(nomadtest.Job{ID: "low", Count: 3, Max: 3, GPUs: 1, CPU: 100, Priority: 10})
	time.Sleep(300 * time.Millisecond) // nothing is to happen
	w.eventually(map[string]int{"a": 5})
}

// A job keeps a count that a user set. Another job must not make up for it by falling below
// its minimum.
func TestController_MakesNoRoomOfWhatAUserSet(t *testing.T) {
	w := newWorld(t, 2, 4)
	w.start(w.config())
	w.job("a", 1, 8)
	w.nomad.Register(nomadtest.Job{ID: "b", Max: 8, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": 2, "preemptible": true}}}})
	w.eventually(map[string]int{"a": 4, "b": 4})
	must.NoError(t, w.nomad.Scale("a", 6))
	w.eventually(map[string]int{"a": 6, "b": 2})
	var fell atomic.Bool
	w.nomad.OnScale = func(job, _ string, _, to int) { fell.Store(fell.Load() || job == "b" && to < 2) }
	w.nomad.Register(nomadtest.Job{ID: "waits", Count: 4, Max: 4, GPUs: 1, CPU: 100, Priority: 50})
	time.Sleep(500 * time.Millisecond) // nothing is to happen
	must.False(t, fell.Load(), must.Sprint("below its minimum"))
}

// The job fits, as far as the autoscaler can see, but Nomad never places it.
func TestController_TakesBackRoomThatNomadDoesNotUse(t *testing.T) {
	w := newWorld(t, 2, 4)
	c := w.config()
	c.Planner.PlacementRetry = time.Hour
	leads, follows := &nomadtest.Log{}, &nomadtest.Log{}
	w.log = hclog.New(&hclog.LoggerOptions{Output: leads})
	w.start(c)
	w.job("a", 2, 8)
	w.eventually(map[string]int{"a": 8})
	second := w.config()
	second.Planner.PlacementRetry = time.Hour
	w.log = hclog.New(&hclog.LoggerOptions{Output: follows})
	w.start(second)
	never := nomadtest.Job{ID: "never", Count: 8, Max: 8, GPUs: 1, CPU: 100, Priority: 50, Unplaceable: true}
	w.nomad.Register(never)
	w.eventually(map[string]int{"a": 2})
	w.eventually(map[string]int{"a": 8})

	t.Log("another name and another registration change nothing, and neither do jobs that fit")
	var shrunk atomic.Bool
	w.nomad.OnScale = func(_, _ string, from, to int) { shrunk.Store(shrunk.Load() || to < from) }
	w.nomad.Register(never)
	w.nomad.Purge("never")
	never.ID = "renamed"
	w.nomad.Register(never)
	w.nomad.Register(nomadtest.Job{ID: "fits", Count: 1, Max: 1, GPUs: 1, CPU: 100, Priority: 50})
	time.Sleep(500 * time.Millisecond) // nothing is to happen
	must.False(t, shrunk.Load())
	counts, live := w.nomad.Counts()
	must.Eq(t, map[string]int{"a": 8, "renamed": 8, "fits": 1}, counts)
	must.Eq(t, map[string]int{"a": 8}, live)
	must.Eq(t, 1, count(leads, "Nomad placed none of them"))
	must.Eq(t, 0, count(follows, "Nomad placed none of them"), must.Sprint("who made no room"))
}

func TestController_ReportsProblemsOnceAndLeavesTheJobAlone(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	w.nomad.Register(nomadtest.Job{ID: "bad", Max: 4, GPUs: 1, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"mim": 2}}}})
	w.job("good", 1, 4)
	w.eventually(map[string]int{"good": 4, "bad": 0})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		h, err := a.History(t.Context(), identity.JobKey{Namespace: "default", ID: "bad"})
		return err == nil && len(h) == 1 && h[0].Error
	}), wait.Timeout(time.Minute), wait.Gap(10*time.Millisecond)))
	must.StrContains(t, a.Status().Ineligible[0].Problems[0], "did you mean min?")
}

// There are jobs with all kinds of mistakes, and one without any.
func TestController_MistakesOfOthersDisturbNoOther(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.config())
	bad := map[string]any{
		"text": "on", "list": []any{1.0, "x"}, "two": []any{map[string]any{}, map[string]any{}}, "number": 7.0, "true": true,
	}
	for key, values := range map[string][]any{
		"min": {"2", -1.0, 0.5, 1e300, nil, []any{}, map[string]any{}}, "weight": {0.0, "heavy", -1e308}, "sizes": {4.0, []any{}, []any{"x"}, []any{[]any{}}},
		"deadline": {"tomorrow", 3.0}, "queue": {"", 3.0}, "priority": {0.0, 101.0}, "preemptible": {"yes"}, "total_work": {-1.0}, "max": {1000.0},
		"step": {0.0}, "preferred": {99.0}, "": {1.0}, "unheard of\n": {1.0},
	} {
		for i, v := range values {
			bad[fmt.Sprintf("%q %d", key, i)] = []any{map[string]any{key: v}}
		}
	}
	n := 0
	for _, v := range bad {
		w.nomad.Register(nomadtest.Job{ID: fmt.Sprint("bad-", n), Max: 4, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": v}})
		n++
	}
	w.job("good", 1, 4)
	w.eventually(map[string]int{"good": 4})
	w.job("second", 1, 4)
	w.eventually(map[string]int{"good": 2, "second": 2})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(a.Status().Ineligible) == n }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	for _, x := range a.Status().Ineligible {
		must.SliceNotEmpty(t, x.Problems)
		for _, p := range x.Problems {
			must.StrHasPrefix(t, `group "workers": scaling.policy.kolo`, p)
		}
	}
	got, _ := w.nomad.Counts()
	for i := range n {
		must.Eq(t, 0, got[fmt.Sprint("bad-", i)])
	}
	must.Greater(t, 25, n)
}

// The job's deadline counts from its submission. Nomad changes the submission time with each
// scaling.
func TestController_ADeadlineStaysWhereItIs(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, _ := w.start(w.config())
	deadline := func(count int) (at time.Time) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			for _, j := range a.Status().Jobs {
				if j.ID == "a" && j.Running == count {
					at = j.Requests.Deadline
					return true
				}
			}
			return false
		}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
		return at
	}
	urgent := nomadtest.Job{ID: "a", Max: 8, GPUs: 1, CPU: 100, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{"deadline": "6h"}}}}
	before := time.Now()
	w.nomad.Register(urgent)
	first := deadline(8)
	must.True(t, !first.Before(before.Add(6*time.Hour)) && !first.After(time.Now().Add(6*time.Hour)), must.Sprint(first))
	w.job("b", 2, 8)
	must.Eq(t, first, deadline(4))
	w.nomad.Register(urgent) // again, while it trains
	w.eventually(map[string]int{"a": 4, "b": 4})
	must.Eq(t, first, deadline(4))

	t.Log("after a stop it is another submission")
	w.nomad.Stop("a")
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(a.Status().Ineligible) == 1 }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.nomad.Register(urgent)
	must.True(t, deadline(4).After(first))
}
