// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// TestDescribeJob is about what users are told of one job.
func TestDescribeJob(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	measured := []Measured{{Point: policy.Point{Size: 2, StepTime: 0.5, Samples: 10}}, {Point: policy.Point{Size: 4, StepTime: 0.25, Samples: 10}}}
	for name, tc := range map[string]struct {
		count, running int
		record         Record
		left           string
		total          float64
		started        bool
		state          string
		eta            time.Duration // from now, 0 is unknown
	}{
		"waiting":                    {state: api.StateWaiting},
		"suspended":                  {started: true, state: api.StateSuspended},
		"paused":                     {count: 2, running: 2, left: "paused by a user", state: api.StateHeld},
		"complete":                   {count: 2, running: 1, record: Record{Frozen: true, Total: 100, Done: 100}, state: api.StateComplete},
		"placing":                    {count: 2, state: api.StateRunning},
		"as fast as measured":        {count: 2, running: 2, record: Record{Total: 100, Done: 40}, state: api.StateRunning, eta: 30 * time.Second},
		"at the size it has":         {count: 4, running: 4, record: Record{Total: 100, Done: 40}, state: api.StateRunning, eta: 15 * time.Second},
		"the job's own total counts": {count: 2, running: 2, record: Record{Total: 100, Done: 40}, total: 240, state: api.StateRunning, eta: 100 * time.Second},
		"far beyond a life":          {count: 2, running: 2, record: Record{Done: 40}, total: 1e300, state: api.StateRunning},
		"no total":                   {count: 2, running: 2, record: Record{Done: 40}, state: api.StateRunning},
		"beyond its total":           {count: 2, running: 2, record: Record{Total: 30, Done: 40}, state: api.StateRunning},
	} {
		t.Run(name, func(t *testing.T) {
			j := &planner.Job{Key: planner.JobKey{Namespace: "default", ID: "a"}, Left: tc.left, Started: tc.started, Groups: []planner.Group{{Count: tc.count}}}
			f := &cluster.Facts{Spec: &jobspec.Spec{TotalWork: tc.total}, Running: tc.running}
			tc.record.Points = measured
			tc.record.Gaps = []Gap{{From: 2, To: 4, Seconds: 0.25}}
			got := describeJob(j, f, &tc.record, planner.Want{Count: 3, Reason: "so"}, planner.Wait{Why: "not yet"}, now)
			must.Eq(t, tc.state, got.State)
			must.Eq(t, gaps(tc.record.Gaps), got.Gaps)
			must.Eq(t, "so", got.Reason)
			switch {
			case tc.record.Frozen:
				must.Eq(t, "", got.HoldReason)
			case tc.left != "":
				must.Eq(t, tc.left, got.HoldReason)
			default:
				must.Eq(t, "not yet", got.HoldReason)
			}
			if tc.eta == 0 {
				must.True(t, got.ETA.IsZero(), must.Sprint(got.ETA))
			} else {
				must.Eq(t, now.Add(tc.eta), got.ETA)
			}
		})
	}
}
