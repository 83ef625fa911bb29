// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// reasonsOf returns the reasons of the events of a type that the next round will publish.
func reasonsOf(a *Controller, typ string) (out []string) {
	for _, e := range a.events {
		if e.Type == typ {
			out = append(out, e.Reason)
		}
	}
	return out
}

// locked returns a controller that knows the job x, and keeps it from making rounds, so that no
// round sees the times of a test.
func locked(t *testing.T) (*Controller, identity.JobKey) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.steady())
	w.job("x", 2, 2)
	becomes(t, a, "x", func(j *api.JobStatus) bool { return j.Running == 2 })
	a.mu.Lock()
	t.Cleanup(a.mu.Unlock)
	return a, identity.JobKey{Namespace: "default", ID: "x"}
}

// A job is late if it has not started by the first forecast since it began to wait. Later
// forecasts do not matter.
func TestController_Late(t *testing.T) {
	a, key := locked(t)
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	note := func(after time.Duration, reason waiting.Reason, latest time.Duration) {
		js := &api.JobStatus{JobKey: key, Waits: &api.Waits{Reason: reason, Since: since}}
		if latest > 0 {
			js.Waits.Expected = &api.Expected{Latest: since.Add(latest)}
		}
		a.noteLate(js, since.Add(after))
	}
	late := func() int { return len(reasonsOf(a, "late")) }
	note(0, waiting.InQueue, 0)
	note(time.Second, waiting.InQueue, 30*time.Minute)
	note(30*time.Minute+lateAfter-time.Second, waiting.InQueue, time.Hour)
	must.Eq(t, 0, late())
	note(30*time.Minute+lateAfter, waiting.Fragmented, 0)
	must.Eq(t, []string{"it was expected to start by 2026-01-01 00:30:00, and waits: fragmented"}, reasonsOf(a, "late"))
	note(40*time.Minute, waiting.InQueue, time.Hour)
	must.Eq(t, 1, late(), must.Sprint("once"))

	t.Log("a job that a user paused is not late, and has another forecast later")
	note(50*time.Minute, waiting.Paused, 0)
	note(51*time.Minute, waiting.InQueue, 2*time.Hour)
	note(2*time.Hour, waiting.InQueue, 0)
	must.Eq(t, 1, late())
	a.noteLate(&api.JobStatus{JobKey: key}, since.Add(5*time.Hour))
	must.Eq(t, 1, late(), must.Sprint("it has started"))

	t.Log("it waits again")
	since = since.Add(6 * time.Hour)
	note(0, waiting.InQueue, time.Minute)
	note(time.Minute+lateAfter, waiting.InQueue, 0)
	must.Eq(t, 2, late())
}

// Each stall is reported once, and a job that invents stalls is reported every ten minutes.
func TestController_Stalled(t *testing.T) {
	a, key := locked(t)
	began := time.Now()
	hear := func(after time.Duration, generation uint64, first bool) int {
		a.hearStall(a.job(key), key, &history.Stall{Generation: generation, Size: 4, Seconds: 61.2}, first, began.Add(after))
		return len(reasonsOf(a, "stalled"))
	}
	must.Eq(t, 0, hear(0, 3, true), must.Sprint("it was before this autoscaler"))
	must.Eq(t, 0, hear(time.Second, 3, false))
	a.hearStall(a.job(key), key, nil, false, began)
	must.Eq(t, 1, hear(2*time.Second, 4, false))
	must.Eq(t, 1, hear(3*time.Second, 4, false))
	must.Eq(t, []string{"its ring of 4 made no step for 61 s"}, reasonsOf(a, "stalled"))
	for n := range uint64(100) {
		must.Eq(t, 1, hear(4*time.Second, 5+n, false))
	}
	must.Eq(t, 2, hear(2*time.Second+stalledEvery, 200, false))
}
