// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// TestJobStatus checks the status of one job.
func TestJobStatus(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	measured := []history.Measurement{{Point: speedup.Point{Size: 2, StepTime: 0.5, Samples: 10}}, {Point: speedup.Point{Size: 4, StepTime: 0.25, Samples: 10}}}
	for name, tc := range map[string]struct {
		count, running int
		history        history.Job
		left           string
		total          float64
		started        bool
		state          string
		progress       float64
		eta            time.Duration // from now, 0 is unknown
	}{
		"waiting":                    {state: api.StateWaiting},
		"suspended":                  {started: true, state: api.StateSuspended},
		"paused":                     {count: 2, running: 2, left: "paused by a user", state: api.StateHeld},
		"complete":                   {count: 2, running: 1, history: history.Job{Frozen: true, Total: 100, Done: 100}, state: api.StateComplete, progress: 1},
		"complete after its report":  {count: 2, history: history.Job{Frozen: true, Total: 280, Done: 278}, state: api.StateComplete, progress: 1},
		"complete without a report":  {count: 2, history: history.Job{Frozen: true}, state: api.StateComplete, progress: 1},
		"placing":                    {count: 2, state: api.StateRunning},
		"as fast as measured":        {count: 2, running: 2, history: history.Job{Total: 100, Done: 40}, state: api.StateRunning, progress: 0.4, eta: 30 * time.Second},
		"at the size it has":         {count: 4, running: 4, history: history.Job{Total: 100, Done: 40}, state: api.StateRunning, progress: 0.4, eta: 15 * time.Second},
		"the job's own total counts": {count: 2, running: 2, history: history.Job{Total: 100, Done: 40}, total: 240, state: api.StateRunning, progress: 40.0 / 240, eta: 100 * time.Second},
		"far beyond a life":          {count: 2, running: 2, history: history.Job{Done: 40}, total: 1e300, state: api.StateRunning, progress: 4e-299},
		"no total":                   {count: 2, running: 2, history: history.Job{Done: 40}, state: api.StateRunning},
		"beyond its total":           {count: 2, running: 2, history: history.Job{Total: 30, Done: 40}, state: api.StateRunning, progress: 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := &planner.Job{Key: identity.JobKey{Namespace: "default", ID: "a"}, HoldReason: tc.left, Started: tc.started, Groups: []planner.Group{{Count: tc.count}}}
			f := &cluster.Facts{Spec: &jobspec.Spec{TotalWork: tc.total}, Observation: history.Observation{Running: tc.running}}
			tc.history.Measurements = measured
			tc.history.Gaps = []history.Gap{{From: 2, To: 4, Seconds: new(0.25)}}
			tc.history.Adaptive = &history.Adaptive{Initial: 32, Batch: 256, Accumulation: 2, Efficiency: 0.8, LRFactor: 6.4}
			got := jobStatus(j, f, Job{Job: &tc.history, KeepsBatch: true, Hangs: 90 * time.Second}, planner.Want{Count: 3, Reason: "so"}, planner.Wait{Why: "not yet"}, now)
			must.Eq(t, tc.state, got.State)
			must.Eq(t, 90, got.Hangs)
			must.Eq(t, &api.Adaptive{Initial: 32, Batch: 256, Accumulation: 2, Efficiency: 0.8, LRFactor: 6.4, Kept: true}, got.Adaptive)
			must.Eq(t, tc.progress, got.Progress)
			must.Eq(t, tc.history.Gaps, got.Gaps)
			must.Eq(t, new(float64), got.LostSteps)
			tc.history.Uncounted = true
			must.Nil(t, tc.history.Repeated())
			must.Eq(t, "so", got.Reason)
			switch {
			case tc.history.Frozen:
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

// The report of a hostile training must spoil neither the status nor the saved history of
// others.
func TestJobStatus_OfNonsense(t *testing.T) {
	text, err := os.ReadFile("../../memory/history/testdata/nonsense.json")
	must.NoError(t, err)
	var all map[string][]string
	must.NoError(t, json.Unmarshal(text, &all))
	for name, answers := range all {
		t.Run(name, func(t *testing.T) {
			h, now := history.New(), time.Unix(1_800_000_000, 0)
			j := h.Job(identity.JobKey{Namespace: "default", ID: "bad"}, &history.Observation{}, now)
			for _, text := range answers {
				var p history.Progress
				must.NoError(t, json.Unmarshal([]byte(text), &p))
				h.Learn(j, "default/kind", &p, 1, now)
			}
			saved, err := store.Encode(h)
			must.NoError(t, err)
			must.Zero(t, saved.Dropped)
			f := &cluster.Facts{Spec: &jobspec.Spec{}, Observation: history.Observation{Running: 1}}
			_, err = json.Marshal(jobStatus(&planner.Job{}, f, Job{Job: j}, planner.Want{}, planner.Wait{}, now))
			must.NoError(t, err)
		})
	}
}
