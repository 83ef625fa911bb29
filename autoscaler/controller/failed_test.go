// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// A job on which Nomad gives up is reported once, and not again by an autoscaler that
// starts later.
func TestController_ReportsFailedJobs(t *testing.T) {
	w := newWorld(t, 1, 8)
	a, stop := w.start(w.config())
	events, unsubscribe := a.Subscribe()
	defer unsubscribe()
	w.job("x", 1, 2)
	w.job("y", 1, 2)
	w.eventually(map[string]int{"x": 2, "y": 2})
	reaches := func(id, state string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			j := statusOf(a.Status(), id)
			return j != nil && j.State == state && (state != api.StateRunning || j.Running == 2)
		}), wait.Timeout(2*time.Minute), wait.Gap(5*time.Millisecond)), must.Sprintf("%s is not %s", id, state))
	}
	reaches("x", api.StateRunning)
	reaches("y", api.StateRunning)
	w.nomad.Fail("x")
	reaches("x", api.StateHeld)
	w.nomad.Fail("y")
	var failed []string
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		for len(events) > 0 {
			if e := <-events; e.Type == "failed" {
				failed = append(failed, e.ID)
			}
		}
		return len(failed) >= 2
	}), wait.Timeout(2*time.Minute), wait.Gap(5*time.Millisecond)))
	must.Eq(t, []string{"x", "y"}, failed)
	stop()

	w.job("z", 1, 2)
	b, _ := w.start(w.config())
	later, unsubscribe := b.Subscribe()
	defer unsubscribe()
	w.eventually(map[string]int{"x": 2, "y": 2, "z": 2})
	for len(later) > 0 {
		must.NotEq(t, "failed", (<-later).Type)
	}
}
