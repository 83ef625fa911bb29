// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// TestElasticFlow_KeepsItsPromises simulates a cluster in which jobs progress exactly by
// their curves and resizes cost nothing. Admitting a job is the promise to meet its
// deadline, so each admitted job must meet it, whichever jobs come later.
func TestElasticFlow_KeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := Policies.Parse(rapid.SampledFrom([]string{"elasticflow", "elasticflow(powers_of_two=false)"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		s := &policy.Snapshot{Nodes: []policy.Node{{ID: "n", GPUs: rapid.IntRange(1, 12).Draw(t, "gpus")}}, Changed: true}
		var coming []policy.Job
		for i := range rapid.IntRange(1, 7).Draw(t, "jobs") {
			low := rapid.IntRange(1, 3).Draw(t, "min")
			j := policy.Job{
				ID: strconv.Itoa(i), Min: low, Max: low + rapid.IntRange(0, 8).Draw(t, "more"), Preemptible: true,
				Curve: concave.Draw(t, "curve"), Submit: rapid.Float64Range(0, 500).Draw(t, "at"),
				Remaining: rapid.Float64Range(10, 2000).Draw(t, "work"),
			}
			if rapid.IntRange(0, 3).Draw(t, "hurry") > 0 {
				j.Deadline = j.Submit + j.Remaining*rapid.Float64Range(0.1, 3).Draw(t, "slack")
			}
			coming = append(coming, j)
		}
		slices.SortStableFunc(coming, func(a, b policy.Job) int { return int(math.Copysign(1, a.Submit-b.Submit)) })

		promised := map[string]bool{}
		wake := 0.0
		for round := 0; len(coming)+len(s.Jobs) > 0 && round < 1000; round++ {
			next := nextEvent(s, coming, wake, func(j *policy.Job) float64 { return j.Remaining })
			step := max(next-s.Now, 0)
			for i := range s.Jobs {
				if j := &s.Jobs[i]; j.Count > 0 {
					j.Remaining -= step / j.Curve.Time(j.Count)
				}
			}
			progress(s, step)
			s.Jobs = slices.DeleteFunc(s.Jobs, func(j policy.Job) bool {
				over := j.Remaining < 1e-6
				if over && promised[j.ID] && s.Now > j.Deadline+1e-3 {
					t.Fatalf("job %s was promised %v and ended at %v", j.ID, j.Deadline, s.Now)
				}
				return over
			})
			for len(coming) > 0 && coming[0].Submit <= s.Now {
				s.Jobs = append(s.Jobs, coming[0])
				coming = coming[1:]
			}
			d := p.Allocate(s)
			audit(t, s, &d)
			apply(s, &d)
			wake = d.RequeueAt
			var state elasticFlowState
			if err := json.Unmarshal(s.State, &state); err != nil {
				t.Fatal(err)
			}
			for _, p := range state.Admitted {
				promised[p.Job] = true
			}
		}
	})
}
