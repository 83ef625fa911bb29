// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// The length of a job is counted in steps, or in time if it reports no steps.
func TestJob_Length(t *testing.T) {
	curve := speedup.NewCurve(speedup.Point{Size: 1, StepTime: 2}, speedup.Point{Size: 4, StepTime: 1})
	for name, c := range map[string]struct {
		job   Job
		curve speedup.Curve
		want  float64
	}{
		"steps":      {Job{Done: 100, RunTime: 50, Attained: 400}, curve, 200},
		"time":       {Job{RunTime: 100, Attained: 100 * 2 * 4}, speedup.Curve{}, 100 * (&speedup.Curve{}).Speedup(4)},
		"never ran":  {Job{}, curve, 0},
		"a lie":      {Job{Done: maxSteps}, curve, maxSeconds},
		"no workers": {Job{RunTime: 100}, speedup.Curve{}, 100},
	} {
		t.Run(name, func(t *testing.T) { must.InDelta(t, c.want, c.job.Length(c.curve, 2), 1e-6) })
	}
}

// A kind remembers the last lengths. A name that was used only once is not a kind.
func TestHistory_LearnLength(t *testing.T) {
	h := New()
	j := &Job{RunTime: 10, Attained: 10}
	h.LearnLength("default/once", false, j, 1, t0)
	must.MapEmpty(t, h.Kinds)
	h.LearnLength("default/bert", true, &Job{}, 1, t0)
	must.MapEmpty(t, h.Kinds)
	for i := range lengthsLimit + 3 {
		j.RunTime, j.Attained = float64(10+i), float64(10+i)
		h.LearnLength("default/bert", true, j, 1, t0)
	}
	got := h.Lengths("default/bert")
	must.Len(t, lengthsLimit, got)
	must.Eq(t, 13, got[0])
	must.Eq(t, 28, got[lengthsLimit-1])
	must.SliceEmpty(t, h.Lengths("default/other"))
	h.Kinds["default/returns"] = &Kind{}
	h.LearnLength("default/returns", false, j, 1, t0)
	must.Len(t, 1, h.Lengths("default/returns"))
}
