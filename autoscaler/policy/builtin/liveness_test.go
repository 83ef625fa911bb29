// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// mild draws curves of any shape whose step times lie within a factor of ten,
// so that policies which look at no curve still end in good time.
var mild = rapid.Custom(func(t *rapid.T) speedup.Curve {
	return speedup.CurveOf(rapid.SliceOfN(rapid.Float64Range(1, 10), 0, 12).Draw(t, "step times")...)
})

// TestPolicies_EveryJobEnds runs random finite workloads by events: the policy is called
// only on arrivals, completions and its own wake-ups. A policy hangs here if it lets a job
// wait forever, or if it does not ask for the decision that would start it.
func TestPolicies_EveryJobEnds(t *testing.T) {
	eachPolicy(t, func(t *testing.T, p policy.Policy) {
		if strings.Contains(t.Name(), "borrow=false") {
			t.Skip("a hard quota may be too small for a job, by the user's own wish")
		}
		rapid.Check(t, func(t *rapid.T) {
			gpus := rapid.IntRange(1, 12).Draw(t, "gpus")
			curves := rapid.SliceOfN(mild, 1, 3).Draw(t, "curves")
			var coming []policy.Job
			steps := map[string]float64{}
			for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
				s := &policy.Snapshot{Now: 3000}
				j := drawJob(t, s, i, []string{""}, curves)
				j.Count, j.FirstStart, j.Attained, j.RunTime, j.Done, j.LastChange = 0, 0, 0, 0, 0, 0
				j.Submit = rapid.Float64Range(0, 3000).Draw(t, "at")
				j.PerWorker = 1
				if j.Min > gpus {
					j.Min, j.Sizes = gpus, sizes.Set{} // a job that fits alone
				}
				j.Max = max(j.Max, j.Min)
				if j.Sizes.Count(j.Min, min(j.Max, gpus)) == 0 {
					j.Sizes = sizes.Set{}
				}
				steps[j.ID] = rapid.Float64Range(10, 5000).Draw(t, "seconds") / j.Curve.Time(j.Min)
				if j.Remaining > 0 {
					j.Remaining = steps[j.ID]
				}
				coming = append(coming, j)
			}
			slices.SortFunc(coming, func(a, b policy.Job) int { return int(math.Copysign(1, a.Submit-b.Submit)) })
			s := &policy.Snapshot{Nodes: []policy.Node{{ID: "n", GPUs: gpus}}, ResizeCost: 5}
			wake := 0.0
			for round := 0; len(coming)+len(s.Jobs) > 0; round++ {
				next := nextEvent(s, coming, wake, func(j *policy.Job) float64 { return steps[j.ID] - j.Done })
				if math.IsInf(next, 1) {
					t.Fatalf("no event is left, and %d jobs wait", len(s.Jobs))
				}
				if round > 20_000 || next > 1e8 {
					t.Fatalf("%d jobs have not ended at %v after %d decisions", len(s.Jobs), s.Now, round)
				}
				progress(s, max(next-s.Now, 0))
				s.Changed = false
				s.Jobs = slices.DeleteFunc(s.Jobs, func(j policy.Job) bool {
					over := j.Done >= steps[j.ID]*(1-1e-9)
					s.Changed = s.Changed || over
					return over
				})
				for len(coming) > 0 && coming[0].Submit <= s.Now {
					s.Jobs = append(s.Jobs, coming[0])
					coming = coming[1:]
					s.Changed = true
				}
				for i := range s.Jobs {
					if j := &s.Jobs[i]; j.Remaining > 0 {
						j.Remaining = steps[j.ID] - j.Done
					}
				}
				d := p.Allocate(s)
				audit(t, s, &d)
				apply(s, &d)
				wake = d.RequeueAt
			}
		})
	})
}
