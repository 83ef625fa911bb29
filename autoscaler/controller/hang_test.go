// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/memory/timeline"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// A job hangs once it has made no step for a minute and for ten times its step time. The times
// of a job that adapts its batch are those of steps with the initial batch.
func TestJob_Hangs(t *testing.T) {
	const step = 20 * time.Second
	for name, tc := range map[string]struct {
		quiet   time.Duration
		phase   string
		running int
		points  []speedup.Point
		gain    float64 // of a step, if the batch adapts
		want    time.Duration
	}{
		"steps are long":        {quiet: 3 * time.Minute, running: 4, points: []speedup.Point{{Size: 4, StepTime: step.Seconds()}}},
		"ten steps":             {quiet: 4 * time.Minute, running: 4, points: []speedup.Point{{Size: 4, StepTime: step.Seconds()}}, want: 4 * time.Minute},
		"a minute":              {quiet: time.Minute, running: 4, points: []speedup.Point{{Size: 4, StepTime: 0.1}}, want: time.Minute},
		"less than a minute":    {quiet: 59 * time.Second, running: 4, points: []speedup.Point{{Size: 4, StepTime: 0.1}}},
		"a large batch":         {quiet: 4 * time.Minute, running: 4, gain: 20, points: []speedup.Point{{Size: 4, StepTime: step.Seconds() / 10}}},
		"ten large batches":     {quiet: 7 * time.Minute, running: 4, gain: 20, points: []speedup.Point{{Size: 4, StepTime: step.Seconds() / 10}}, want: 7 * time.Minute},
		"large, another size":   {quiet: 4 * time.Minute, running: 8, gain: 20, points: []speedup.Point{{Size: 4, StepTime: step.Seconds() / 10}}},
		"of another size":       {quiet: 4 * time.Minute, running: 8, points: []speedup.Point{{Size: 4, StepTime: step.Seconds()}, {Size: 16, StepTime: 30}}},
		"unknown step time":     {quiet: time.Hour, running: 4},
		"training":              {quiet: time.Minute, running: 4, phase: "training", points: []speedup.Point{{Size: 4, StepTime: 0.1}}, want: time.Minute},
		"resizing":              {quiet: time.Minute, running: 4, phase: "resizing", points: []speedup.Point{{Size: 4, StepTime: 0.1}}},
		"without workers":       {quiet: time.Minute, points: []speedup.Point{{Size: 4, StepTime: 0.1}}},
		"it has never answered": {running: 4, points: []speedup.Point{{Size: 4, StepTime: 0.1}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := &job{Job: &history.Job{}, series: &timeline.Series{}}
			if tc.gain > 0 {
				j.Adapts, j.Adaptive = true, &history.Adaptive{Initial: 32, Batch: 64 * tc.gain, Efficiency: 0.5}
			}
			for _, p := range tc.points {
				j.Measurements = append(j.Measurements, history.Measurement{Point: p})
			}
			if tc.quiet > 0 {
				now := time.Now()
				j.training = &api.Training{Phase: tc.phase}
				j.series.Add(timeline.Sample{At: now, Size: 4, Step: 7})
				j.series.Add(timeline.Sample{At: now.Add(tc.quiet), Size: 4, Step: 7})
			}
			must.Eq(t, tc.want, j.hangs(tc.running))
		})
	}
}
