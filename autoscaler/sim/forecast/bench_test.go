// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package forecast_test

import (
	"fmt"
	"testing"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim/forecast"
)

// BenchmarkStarts forecasts pools with as many waiting jobs as running ones.
func BenchmarkStarts(b *testing.B) {
	for _, name := range []string{"fifo", "kolo"} {
		for _, jobs := range []int{20, 200, forecast.MaxJobs} {
			b.Run(fmt.Sprintf("%s/%d", name, jobs), func(b *testing.B) {
				p, err := builtin.Policies.Parse(name)
				if err != nil {
					b.Fatal(err)
				}
				q := &forecast.Question{Policy: p, Snapshot: &policy.Snapshot{Now: now, Seed: 1, Changed: true, ResizeCost: 1, Nodes: []policy.Node{{ID: "n", GPUs: 2 * jobs}}}}
				for i := range jobs {
					j := waiting(fmt.Sprintf("w%04d", i), 4)
					if i < jobs/2 {
						j = running(fmt.Sprintf("r%04d", i), 4, 0)
					}
					l := forecast.Length{Kind: []float64{2000, 4000, 8000, 16000, 32000}}
					q.Snapshot.Jobs, q.Lengths = append(q.Snapshot.Jobs, j), append(q.Lengths, l)
				}
				for i := range 30 {
					j := waiting("a", 4)
					j.Submit = now - 3000 + 100*float64(i)
					q.Arrivals = append(q.Arrivals, forecast.Arrival{Job: j, Length: q.Lengths[0]})
				}
				for b.Loop() {
					if _, err := forecast.Starts(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
