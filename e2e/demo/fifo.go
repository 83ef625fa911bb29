// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// fifo simulates the same jobs with a fixed number of workers each, in order of
// arrival: the same submissions, steps and step times. Its assumptions favour FIFO.
// A start takes as long as the fastest one measured. If a job never had a size, its
// step time scales perfectly from the nearest smaller size that it had. fifo
// returns the JCTs in the order of jobs.
func fifo(ctx context.Context, jobs []measurement, workers int) ([]time.Duration, error) {
	p, err := builtin.Policies.New("fifo", nil)
	if err != nil {
		return nil, err
	}
	startup := jobs[0].startup
	t := &trace.Trace{Name: "demo"}
	for _, m := range jobs {
		if len(m.stepTime) == 0 {
			return nil, fmt.Errorf("%s: no step time was measured", m.name)
		}
		startup = min(startup, m.startup)
		curve, err := trace.NewCurve(m.curve())
		if err != nil {
			return nil, err
		}
		t.Jobs = append(t.Jobs, trace.Job{
			ID: m.name, Submit: m.submitted.Sub(jobs[0].submitted).Seconds(), Weight: 1,
			Min: workers, Max: workers, Preferred: workers, Steps: float64(m.steps), Curve: curve,
		})
	}
	result, err := sim.Run(ctx, sim.Config{
		Trace: t, Nodes: sim.Uniform(clients, perClient, ""), Policy: p, Resize: sim.ResizeCost{Constant: startup.Seconds()},
	})
	if err != nil {
		return nil, err
	}
	jct := make([]time.Duration, len(result.Jobs))
	for i := range result.Jobs {
		jct[i] = time.Duration(result.Jobs[i].JCT() * float64(time.Second))
	}
	return jct, nil
}

// curve returns the time of a step in seconds on 1 worker up to all slots.
func (m *measurement) curve() []float64 {
	sizes := slices.Sorted(maps.Keys(m.stepTime))
	times := make([]float64, slots)
	for n := 1; n <= slots; n++ {
		from := sizes[0] // with fewer workers it is slower by the largest possible factor
		for _, size := range sizes {
			if size <= n {
				from = size
			}
		}
		times[n-1] = m.stepTime[from].Seconds() * float64(from) / float64(n)
	}
	return times
}
