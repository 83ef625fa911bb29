// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// used waits until an autoscaler keeps the account, and returns the sum of its rows.
func used(t *testing.T, a *Controller) usage.Counts {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.ledger != nil && a.leading() && a.view != nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	rows, err := a.Usage(t.Context(), 0)
	must.NoError(t, err)
	sums := usage.Group(rows, usage.ByPool)
	must.Len(t, 1, sums)
	return sums[0].Counts
}

// steady returns a configuration of a leader that keeps the lock on a slow machine.
func (w *world) steady() *config.Config {
	c := w.config()
	c.Leader.TTL = time.Minute
	return c
}

// slotSeconds returns the slot-seconds that allocations held until a time, by Nomad's own times.
func slotSeconds(t *testing.T, a *Controller, until time.Time) float64 {
	t.Helper()
	allocs, _, err := a.client.Allocations().List(nil)
	must.NoError(t, err)
	sum := 0.0
	for _, s := range allocs {
		end := until
		if s.ClientStatus == api.AllocClientStatusComplete || s.ClientStatus == api.AllocClientStatusFailed {
			end = time.Unix(0, s.ModifyTime)
		}
		sum += end.Sub(time.Unix(0, s.CreateTime)).Seconds()
	}
	return sum
}

// TestController_Usage has a leader die without saving anything. For a while, no one leads.
// The next leader counts the slots that were held in between.
func TestController_Usage(t *testing.T) {
	for _, end := range []string{usage.Complete, usage.Stopped} {
		t.Run(end, func(t *testing.T) { endsUnled(t, end) })
	}
}

func endsUnled(t *testing.T, end string) {
	w := newWorld(t, 2, 4)
	first, stop := w.start(w.steady())
	w.job("a", 1, 8)
	w.eventually(map[string]int{"a": 8})
	time.Sleep(100 * time.Millisecond) // slots are held
	before := time.Now()
	got := used(t, first)
	must.Between(t, slotSeconds(t, first, before)-0.1, float64(got.Held)/1000, slotSeconds(t, first, time.Now())+0.1)
	must.Eq(t, got.Held, got.Unknown, must.Sprint("the job reports nothing"))

	w.nomad.Fault = func(_, path string) int {
		if strings.Contains(path, "kolo/usage") {
			return http.StatusForbidden
		}
		return 0
	}
	stop()
	w.nomad.Fault = nil
	if end == usage.Complete {
		must.True(t, w.nomad.Complete("a"))
	} else {
		w.nomad.Stop("a")
	}
	w.nomad.ExpireLock("kolo/leader")

	follower, _ := New(w.steady(), nil, first.log)
	rows, err := follower.Usage(t.Context(), 0)
	must.NoError(t, err)
	must.SliceEmpty(t, rows, must.Sprint("nothing is saved yet"))

	second, stop := w.start(w.steady())
	before = time.Now()
	got = used(t, second)
	must.Between(t, slotSeconds(t, second, before)-0.1, float64(got.Held)/1000, slotSeconds(t, second, time.Now())+0.1)
	must.Greater(t, 0, got.Held)

	t.Log("what is saved in the end is what a follower shows")
	stop()
	rows, err = follower.Usage(t.Context(), 0)
	must.NoError(t, err)
	must.Len(t, 1, rows)
	must.Eq(t, usage.Key{Day: rows[0].Day, Pool: "default", Queue: "*", Namespace: "default", Job: "a", Kind: rows[0].Kind}, rows[0].Key)
	must.GreaterEq(t, got.Held, rows[0].Held)
	if end == usage.Stopped {
		must.Eq(t, end, rows[0].End)
		must.Eq(t, got.Held, rows[0].Held)
	}
}

// TestController_UsageIsReported has a job report its steps. Its status, the table rows and
// the metrics have the same amounts.
func TestController_UsageIsReported(t *testing.T) {
	w := newWorld(t, 2, 4)
	a, _ := w.start(w.steady())
	w.job("a", 8, 8)
	w.eventually(map[string]int{"a": 8})
	used(t, a)
	time.Sleep(200 * time.Millisecond) // steps are made
	key := identity.JobKey{Namespace: "default", ID: "a"}
	a.mu.Lock()
	a.countUsage(time.Now())
	a.ledger.Report(key, usageReport(&history.Progress{Size: 8, StepSeconds: map[string]history.StepTime{"8": {Mean: 0.01, N: 10}, "x": {Mean: 1, N: 1}}}), time.Now())
	a.mu.Unlock()
	got := used(t, a)
	must.Eq(t, 800, got.Productive)
	must.Greater(t, 0, got.Starting)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		s := a.Status()
		return len(s.Jobs) == 1 && s.Jobs[0].Usage != nil && s.Jobs[0].Usage.Share != nil && s.Jobs[0].Usage.Productive == 0.8
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	for sees, namespace := range map[bool]string{true: "default", false: ""} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(a.JobMetrics(func(identity.JobKey) bool { return sees }))
		families, err := registry.Gather()
		must.NoError(t, err)
		found, gpus := false, 0
		for _, f := range families {
			if f.GetName() == "kolo_gpu_info" {
				gpus = len(f.GetMetric())
			}
			for _, m := range f.GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if f.GetName() == "kolo_slot_seconds_total" && labels["use"] == "productive" {
					found = true
					must.Eq(t, namespace, labels["namespace"])
					must.Eq(t, 0.8, m.GetCounter().GetValue())
				}
			}
		}
		must.True(t, found)
		must.Eq(t, map[bool]int{true: 8, false: 0}[sees], gpus)
	}
}
