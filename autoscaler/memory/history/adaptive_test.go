// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// adapting returns a report of a training with an initial batch of 32. At a size, it has made n
// steps of 2 s, each of which was worth gain steps with the initial batch.
func adapting(size, n int, gain, before float64) *Progress {
	return &Progress{
		Size: size, Step: float64(n), Samples: 32 * (before + float64(n)*gain), TotalSteps: 1000,
		StepSeconds: map[string]StepTime{strconv.Itoa(size): {Mean: 2, N: n, Samples: 32 * gain}},
		Adaptive:    &Adaptive{Initial: 32, Batch: 64 * gain, Accumulation: 2, Efficiency: 0.5, LRFactor: gain},
	}
}

// Work is counted in steps with the initial batch, whatever the batch is.
func TestJob_LearnAdaptive(t *testing.T) {
	var r Job
	r.learn(adapting(1, 20, 2, 0), 1, t0) // the batch had grown before the first report
	must.True(t, r.Adapts)
	must.Eq(t, 32, r.Batch)
	must.Eq(t, 40, r.Done)
	must.Eq(t, 1000, r.Total, must.Sprint("total_steps counts steps with the initial batch"))
	curve := speedup.NewCurve(r.Points()...)
	must.Eq(t, 1, curve.Time(1), must.Sprint("seconds of a step with the initial batch"))
	left, ok := r.Left(0, 1, curve)
	must.True(t, ok)
	must.Eq(t, 960, left)
	must.Eq(t, 2, r.PerStep(1))

	r.learn(adapting(4, 40, 4, 40), 1, t0.Add(time.Minute))
	must.Eq(t, 200, r.Done)
	must.Eq(t, 1000, r.Total)
	curve = speedup.NewCurve(r.Points()...)
	must.Eq(t, 0.5, curve.Time(4))
	must.Eq(t, 4, r.PerStep(1), must.Sprint("of the present batch"))
}

// The first report with progress after the job had no workers decides whether it adapts.
func TestJob_AdaptsIsDecidedOnce(t *testing.T) {
	var r Job
	r.learn(&Progress{Size: 2}, 1, t0)
	must.False(t, r.heard, must.Sprint("no step was made"))
	fixed := &Progress{Size: 2, Step: 10, Samples: 640, StepSeconds: map[string]StepTime{"2": {Mean: 2, N: 10, Samples: 64}}}
	r.learn(fixed, 1, t0)
	r.learn(adapting(2, 20, 2, 0), 1, t0)
	must.False(t, r.Adapts)
	must.Eq(t, 64, r.Batch)
	must.Eq(t, 1, r.PerStep(2))

	r.observe(&Observation{}, t0, 0)
	r.learn(adapting(2, 20, 2, 0), 1, t0)
	must.True(t, r.Adapts)
	must.Eq(t, 32, r.Batch)
	r.learn(fixed, 1, t0)
	must.True(t, r.Adapts)
	must.Eq(t, 32, r.Batch)

	r.observe(&Observation{}, t0, 0)
	r.learn(fixed, 1, t0)
	must.False(t, r.Adapts)
	must.Eq(t, 64, r.Batch)
}

// Where each rank has a fixed batch, a step of more ranks is more work.
func TestJob_PerStep(t *testing.T) {
	var r Job
	r.learn(&Progress{Size: 2, Step: 9, Samples: 180, StepSeconds: map[string]StepTime{"2": {Mean: 1, N: 9, Samples: 20}}}, 1, t0)
	r.learn(&Progress{Size: 8, Step: 18, Samples: 900, StepSeconds: map[string]StepTime{"8": {Mean: 1, N: 9, Samples: 80}}}, 1, t0)
	must.Eq(t, 1, r.PerStep(2))
	must.Eq(t, 4, r.PerStep(8))
	must.Eq(t, 1, r.PerStep(3), must.Sprint("not measured"))
}

// A job that has reported nothing is taken to do what the last job of its kind did, in the same
// queue only.
func TestHistory_Adapts(t *testing.T) {
	h := New()
	var first, fixed, next Job
	first.learn(adapting(1, 20, 2, 0), 1, t0)
	h.LearnAdapts("ns/kind", "a", &next, t0)
	must.MapEmpty(t, h.Kinds, must.Sprint("it has reported nothing"))
	h.LearnAdapts("ns/kind", "a", &first, t0)
	must.True(t, h.Adapts(&first, "ns/kind", "a"))
	must.True(t, h.Adapts(&next, "ns/kind", "a"))
	must.False(t, h.Adapts(&next, "ns/kind", "b"))
	must.False(t, h.Adapts(&next, "other/kind", "a"))

	fixed.learn(&Progress{Size: 1, Step: 5}, 1, t0)
	must.False(t, h.Adapts(&fixed, "ns/kind", "a"))
	h.LearnAdapts("ns/kind", "b", &fixed, t0)
	must.True(t, h.Adapts(&next, "ns/kind", "a"))
	h.LearnAdapts("ns/kind", "a", &fixed, t0)
	must.False(t, h.Adapts(&next, "ns/kind", "a"))

	for i := range 100 {
		h.LearnAdapts("ns/kind", strconv.Itoa(i), &first, t0)
	}
	must.Len(t, adaptingLimit, h.Kinds["ns/kind"].Adapting)
	must.True(t, h.Adapts(&next, "ns/kind", "99"))
}
