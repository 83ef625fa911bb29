// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// TestShow_AJobCannotSteerTheTerminal has a tenant name a job so that it would
// hide itself from the operator.
func TestShow_AJobCannotSteerTheTerminal(t *testing.T) {
	ui := cli.NewMockUi()
	c := &apiCommand{meta: meta{UI: ui}}
	c.show(nil, func() string {
		return drawStatus(&api.Status{Ready: true, Jobs: []api.JobStatus{{JobKey: planner.JobKey{ID: "x\x1b[2K\x1b[1A"}, Reason: "\x1b]0;title\x07"}}})
	})
	must.StrNotContains(t, ui.OutputWriter.String(), "\x1b")
	must.StrContains(t, ui.OutputWriter.String(), "x�[2K")
}

// TestStatus_ACompleteJobIsComplete is about a training whose last report came
// before its last step.
func TestStatus_ACompleteJobIsComplete(t *testing.T) {
	j := api.JobStatus{JobKey: planner.JobKey{Namespace: "default", ID: "a"}, State: api.StateComplete, Step: 278, Total: 280, Progress: 1}
	must.Eq(t, "complete", statusRow(&j, time.Now())[5])
	must.Eq(t, "complete; last report: step 278 of 280", jobProgress(&j))
	j.State, j.Progress = api.StateRunning, 278.0/280
	must.Eq(t, "99%", statusRow(&j, time.Now())[5])
	must.Eq(t, "step 278 of 280", jobProgress(&j))
	must.Eq(t, "complete", jobProgress(&api.JobStatus{State: api.StateComplete}))
	must.Eq(t, "", jobProgress(&api.JobStatus{State: api.StateRunning}))
}
