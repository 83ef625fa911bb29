// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

var t0 = time.Unix(1_800_000_000, 0)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// training returns a job as the status shows it.
func training(id, state string, count int, step float64) api.JobStatus {
	return api.JobStatus{
		JobKey: identity.JobKey{Namespace: "default", ID: id}, Pool: "gpu", Queue: "vision", State: state, Count: count, Min: 1, Max: 4, Seen: at(0), Step: step,
		Requests: api.Requests{Kind: "resnet", Preferred: 2, Slots: 2, Weight: 1, Priority: 50, Preemptible: true},
	}
}

func status(seconds int, jobs ...api.JobStatus) *api.Status {
	return &api.Status{Time: at(seconds), Ready: true, Pools: []api.PoolStatus{{Name: "gpu", Capacity: 8}}, Jobs: jobs}
}

// replayable reads recorded events as the simulator does.
func replayable(t *testing.T, events []trace.Event) *trace.Trace {
	t.Helper()
	var file bytes.Buffer
	must.NoError(t, trace.WriteEvents(&file, events))
	tr, err := trace.Read(&file, "log", trace.Options{})
	must.NoError(t, err, must.Sprint(file.String()))
	return tr
}

func TestRecorder_WhatItWritesCanBeReplayed(t *testing.T) {
	var r Recorder
	var events []trace.Event
	take := func(s *api.Status) int {
		news := r.Take(s)
		events = append(events, news...)
		return len(news)
	}
	must.Zero(t, take(&api.Status{Time: at(4)}), must.Sprint("an autoscaler that is not ready knows nothing"))

	j := training("a", api.StateRunning, 2, 10)
	j.StepTimes = []speedup.Point{{Size: 2, StepTime: 1, Samples: 10}}
	take(status(5, j))
	must.Zero(t, take(status(10, j)), must.Sprint("nothing changed"))
	j.Total = 1000
	must.Eq(t, 1, take(status(11, j)))
	j.Total = 1001
	must.Zero(t, take(status(12, j)), must.Sprint("a length that is estimated wavers"))

	j.Count, j.Step = 4, 100
	j.Gaps = []history.Gap{{From: 4, To: 8, Seconds: seconds(0.5)}} // in slots: 2 workers become 4
	j.StepTimes = []speedup.Point{{Size: 2, StepTime: 2, Samples: 20}, {Size: 4, StepTime: 0.6, Samples: 70}}
	take(status(60, j))
	j.State, j.Step = api.StateComplete, 120
	must.Eq(t, 1, take(status(70, j)))
	must.Zero(t, take(status(75, j)))

	tr := replayable(t, events)
	must.Eq(t, []trace.Node{{ID: "gpu", Type: "gpu", GPUs: 8}}, tr.Nodes)
	must.Eq(t, map[int]float64{4: 0.5}, tr.Gaps)
	must.Len(t, 1, tr.Jobs)
	got := tr.Jobs[0]
	must.Eq(t, "default/a", got.ID)
	must.Eq(t, "resnet", got.App)
	must.Eq(t, "vision", got.Tenant)
	must.Eq(t, 120, got.Steps)
	must.Eq(t, 2, got.PerWorker)
	must.InDelta(t, 1.5, got.Curve.StepTime(2), 1e-9) // recorded twice, with ten samples more each time
	must.InDelta(t, 0.6, got.Curve.StepTime(4), 1e-9)

	p, err := builtin.Policies.New(builtin.Default, nil)
	must.NoError(t, err)
	res, err := sim.Run(t.Context(), sim.Config{Trace: tr, Nodes: tr.Nodes, Policy: p})
	must.NoError(t, err)
	must.True(t, res.Jobs[0].Ended)
}

func TestRecorder_LivesOfJobs(t *testing.T) {
	point := []speedup.Point{{Size: 1, StepTime: 1, Samples: 5}}
	var r Recorder
	over, stopped, runs := training("over", api.StateComplete, 1, 5), training("stopped", api.StateRunning, 1, 50), training("runs", api.StateRunning, 1, 30)
	stopped.StepTimes, runs.StepTimes = point, point
	events := r.Take(status(5, over, stopped, runs))
	events = append(events, r.Take(status(10, over, runs))...)

	again := training("stopped", api.StateRunning, 2, 7)
	again.Seen, again.StepTimes = at(20), point
	events = append(events, r.Take(status(25, runs, again))...)
	events = append(events, r.Close()...)

	steps := map[string]float64{}
	for _, j := range replayable(t, events).Jobs {
		steps[j.ID] = j.Steps
	}
	must.Eq(t, map[string]float64{
		"default/stopped": 50, "default/runs": 30, "default/stopped@2027-01-15T08:00:20Z": 7,
	}, steps, must.Sprint("a job that was complete before is of no use, and one registered again is another"))
}

func seconds(s float64) *float64 { return &s }

func TestRecorder_GapsAreRecordedOnce(t *testing.T) {
	var r Recorder
	recorded := 0
	for n := 1; n <= 25; n++ {
		j := training("a", api.StateRunning, 1, 1)
		for i := max(1, n-9); i <= n; i++ { // the status has the last ten
			j.Gaps = append(j.Gaps, history.Gap{From: 2, To: 4, Seconds: seconds(float64(i))})
		}
		for _, e := range r.Take(status(n, j)) {
			if e.Kind == trace.EventResize {
				recorded++
				must.Eq(t, float64(recorded), e.Seconds)
			}
		}
	}
	must.Eq(t, 25, recorded)
}
