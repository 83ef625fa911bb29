// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// crowd makes a busy cluster: jobs of all ages on curves that bend and dip,
// about as many running as fit.
func crowd(jobs, gpus int) *policy.Snapshot {
	rng := rand.New(rand.NewPCG(1, uint64(jobs)))
	var curves []speedup.Curve
	for range 50 {
		points := []speedup.Point{{Size: 1, StepTime: 1 + 9*rng.Float64(), Samples: 30}}
		bend := 0.6 + 0.4*rng.Float64()
		for n := 2; n <= 64; n++ {
			noise := 0.9 + 0.2*rng.Float64()
			points = append(points, speedup.Point{Size: n, StepTime: points[0].StepTime / math.Pow(float64(n), bend) * noise, Samples: 30})
		}
		curves = append(curves, speedup.NewCurve(points...))
	}
	s := &policy.Snapshot{Now: 1e6, ResizeCost: 5, Changed: true}
	for left := gpus; left > 0; left -= 8 {
		s.Nodes = append(s.Nodes, policy.Node{ID: fmt.Sprint("node-", len(s.Nodes)), GPUs: min(left, 8)})
	}
	left := gpus
	for i := range jobs {
		c := curves[rng.IntN(len(curves))]
		j := policy.Job{
			ID: fmt.Sprint("job-", i), Tenant: fmt.Sprint("tenant-", rng.IntN(20)), Weight: 1,
			Submit: float64(i) * 1e6 / float64(jobs), Min: 1, Max: 64, Preferred: 1 << rng.IntN(6),
			Preemptible: true, Curve: c, Remaining: 100 * math.Pow(10, 4*rng.Float64()),
		}
		if rng.IntN(3) == 0 {
			j.Deadline = 1e6 + 1e5*rng.Float64()
		}
		if n := min(1+rng.IntN(2*gpus/jobs+2), 64); n <= left {
			left -= n
			j.Count, j.FirstStart, j.LastChange = n, j.Submit, j.Submit
			j.RunTime = 1e6 - j.Submit
			j.Attained = j.RunTime * float64(n)
			j.Done = j.RunTime / c.Time(n)
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// BenchmarkAllocate measures one decision of each policy. It passes the state of the
// previous decision, as in production.
func BenchmarkAllocate(b *testing.B) {
	for _, name := range Policies.Names() {
		for _, jobs := range []int{100, 1_000, 10_000} {
			for _, gpus := range []int{64, 4_096, 100_000} {
				b.Run(fmt.Sprintf("%s/jobs=%d/gpus=%d", name, jobs, gpus), func(b *testing.B) {
					p, err := Policies.New(name, nil)
					if err != nil {
						b.Fatal(err)
					}
					s := crowd(jobs, gpus)
					s.State = p.Allocate(s).State
					b.ReportAllocs()
					b.ResetTimer()
					for b.Loop() {
						p.Allocate(s)
					}
				})
			}
		}
	}
}
