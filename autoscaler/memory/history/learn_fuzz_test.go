// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// FuzzLearn has a job answer probes at two places with any numbers. The data that is kept
// of the job and its kind stays bounded and finite, and can be saved for the next
// autoscaler.
func FuzzLearn(f *testing.F) {
	f.Add(`{"size":2,"step":10,"samples":320,"total_steps":100,"step_seconds":{"2":{"mean":0.5,"n":8,"samples":32}}}`,
		`{"size":4,"step":90,"samples":1e300,"step_seconds":{"4":{"mean":1e-300,"n":16,"samples":64}},"resizes":[{"from":2,"to":4,"cause":"resize","gap_seconds":0.3,"time":1700000000}]}`, 1)
	f.Add(`{"step":-1,"step_seconds":{"-1":{"mean":-1,"n":-1}}}`, `{"complete":true,"loss":1e308}`, 4)
	f.Fuzz(func(t *testing.T, first, second string, slots int) {
		now := time.Unix(1_700_000_000, 0)
		var r Job
		h, slots := New(), max(1, slots)
		for i, text := range []string{first, second, first, second, second, first, first} {
			var p Progress
			if json.Unmarshal([]byte(text), &p) != nil {
				continue
			}
			now = now.Add(time.Minute)
			for size, t := range p.StepSeconds { // each probe finds more steps
				t.N = min(t.N, 1<<40) + 20*i
				p.StepSeconds[size] = t
			}
			r.where = Where{Workers: p.Size / slots}
			if i > 4 {
				r.where.Crossing = onTwo
			}
			if i%2 == 0 {
				r.long(&p, slots)
			}
			r.see(p.Size/slots, now)
			h.Learn(&r, "k", &p, slots, now)
			r.expire(p.Size, now)
		}
		must.LessEq(t, measurementsLimit, len(r.Measurements))
		must.LessEq(t, gapsLimit, len(r.Gaps))
		for _, p := range r.Points() {
			must.Positive(t, p.Size)
			must.Positive(t, p.StepTime)
			must.False(t, math.IsInf(p.StepTime, 0))
		}
		must.LessEq(t, placedLimit, len(r.Placed))
		for _, p := range r.Placed {
			must.Positive(t, p.Size)
			must.True(t, within(p.StepTime, minStepTime, maxSeconds))
		}
		_, err := json.Marshal(r)
		must.NoError(t, err)
		_, err = json.Marshal(h.Kinds)
		must.NoError(t, err)
	})
}
