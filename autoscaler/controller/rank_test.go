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

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// ranks returns the label rank of kolo_gpu_info by job and allocation.
func ranks(t *testing.T, a *Controller) map[string]string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.JobMetrics(func(identity.JobKey) bool { return true }))
	families, err := registry.Gather()
	must.NoError(t, err)
	out := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "kolo_gpu_info" {
				out[labels["job_id"]+"/"+labels["alloc_id"]] = labels["rank"]
			}
		}
	}
	return out
}

// A job reports its ranks, and claims those of another job, which reports none.
func TestController_RanksOfGPUs(t *testing.T) {
	w := newWorld(t, 1, 2)
	c := w.config()
	c.Planner.Progress = 2 * time.Millisecond
	a, _ := w.start(c)
	var mine, others atomic.Pointer[string]
	none := ""
	mine.Store(&none)
	others.Store(&none)
	at := newAnswering(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"job":"x","namespace":"default","ranks":[{"rank":3,"alloc_id":%q},{"rank":4,"alloc_id":%q}]}`, *mine.Load(), *others.Load()) // a reader that went away
	}).at
	w.nomad.Register(nomadtest.Job{ID: "x", Max: 1, GPUs: 1, CPU: 100, Priority: 50, Service: "x", At: []string{at}, Elastic: w.elastic})
	w.nomad.Register(nomadtest.Job{ID: "y", Max: 1, GPUs: 1, CPU: 100, Priority: 50, Elastic: w.elastic})
	w.eventually(map[string]int{"x": 1, "y": 1})
	until := func(ok func(map[string]string) bool) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return ok(ranks(t, a)) }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	}
	until(func(all map[string]string) bool { return len(all) == 2 })
	want := map[string]string{}
	for _, g := range a.watcher.GPUs() {
		want[g.Job.ID+"/"+g.Alloc] = ""
		if g.Job.ID == "x" {
			want["x/"+g.Alloc] = "3"
			mine.Store(&g.Alloc)
		} else {
			others.Store(&g.Alloc)
		}
	}
	until(func(all map[string]string) bool { return fmt.Sprint(all) == fmt.Sprint(want) })
	a.mu.Lock()
	defer a.mu.Unlock()
	key := identity.JobKey{Namespace: "default", ID: "x"}
	must.MapNotContainsKey(t, a.jobs[key].ranks, *others.Load(), must.Sprint("claims are not kept"))
}
