// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// training answers for a job. While it steps, each answer has a later step, so it is idle
// at no time, however slow the machine is.
type training struct {
	id    string
	steps atomic.Bool
	step  atomic.Int64
}

func (x *training) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if x.steps.Load() {
		x.step.Add(1)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"job":%q,"namespace":"default","step":%d}`, x.id, x.step.Load()) // a reader that went away
}

// idling starts an autoscaler that looks for idle jobs in the default pool.
func (w *world) idling(edit func(*config.Pool), edits ...func(*config.Config)) *Controller {
	c := w.steady()
	c.Planner.Progress = 2 * time.Millisecond
	for _, e := range edits {
		e(c)
	}
	p := c.Pools["default"]
	p.IdleAfter = 50 * time.Millisecond
	edit(&p)
	c.Pools["default"] = p
	a, _ := w.start(c)
	return a
}

// trains registers an elastic job whose training answers.
func (w *world) trains(id string, most int, kolo map[string]any) *training {
	x := &training{id: id}
	x.steps.Store(true)
	at := newAnswering(w.t, x.ServeHTTP).at
	w.nomad.Register(nomadtest.Job{
		ID: id, Max: most, GPUs: 1, CPU: 100, Priority: 50, Service: id, At: []string{at},
		Elastic: map[string]any{"kolo": []any{kolo}},
	})
	return x
}

// becomes waits for the status of a job.
func becomes(t *testing.T, a *Controller, id string, ok func(*api.JobStatus) bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		if j := statusOf(a.Status(), id); j == nil || !ok(j) {
			return fmt.Errorf("the status is %+v", j)
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

func isIdle(j *api.JobStatus) bool { return j.Idle > 0 }
func steps(j *api.JobStatus) bool  { return j.Idle == 0 && j.Step > 0 }

// idleSeconds returns the values of kolo_job_idle_seconds by job.
func idleSeconds(t *testing.T, a *Controller) map[string]float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.JobMetrics(func(identity.JobKey) bool { return true }))
	families, err := registry.Gather()
	must.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "kolo_job_idle_seconds" {
				out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// A job that makes no steps is reported once, and keeps its workers. A job that claims to
// make steps is not idle, nor is one that never reported a step.
func TestController_Idle(t *testing.T) {
	w := newWorld(t, 1, 6)
	a := w.idling(func(*config.Pool) {})
	events, stop := a.Subscribe()
	defer stop()
	x := w.trains("x", 2, map[string]any{})
	w.trains("claims", 2, map[string]any{})
	silent := w.trains("silent", 2, map[string]any{})
	silent.steps.Store(false)
	want := map[string]int{"x": 2, "claims": 2, "silent": 2}
	w.eventually(want)
	becomes(t, a, "x", steps)
	becomes(t, a, "claims", steps)

	x.steps.Store(false)
	becomes(t, a, "x", isIdle)
	must.True(t, steps(statusOf(a.Status(), "claims")))
	must.Zero(t, statusOf(a.Status(), "silent").Idle)
	must.Eq(t, "running", statusOf(a.Status(), "x").State)
	seconds := idleSeconds(t, a)
	must.MapLen(t, 1, seconds)
	must.Greater(t, 0.05-1e-9, seconds["x"])
	x.steps.Store(true)
	becomes(t, a, "x", steps)
	must.MapEmpty(t, idleSeconds(t, a))
	w.eventually(want)

	idle := 0
	for len(events) > 0 {
		if e := <-events; e.Type == "idle" {
			idle++
			must.Eq(t, "x", e.ID)
			must.StrContains(t, e.Reason, "it made no step for")
		}
	}
	must.Eq(t, 1, idle)
}
