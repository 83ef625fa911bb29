// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// crowd is a busy pool: jobs of all ages, about as many running as fit.
func crowd(queues, jobs, slots int) *policy.Snapshot {
	rng := rand.New(rand.NewPCG(1, 1))
	var curves []speedup.Curve
	for range 50 {
		points := []speedup.Point{{Size: 1, StepTime: 1 + 9*rng.Float64(), Samples: 30}}
		bend := 0.6 + 0.4*rng.Float64()
		for n := 2; n <= 64; n++ {
			points = append(points, speedup.Point{Size: n, StepTime: points[0].StepTime / math.Pow(float64(n), bend), Samples: 30})
		}
		curves = append(curves, speedup.NewCurve(points...))
	}
	s := &policy.Snapshot{Now: 1e6, ResizeCost: 5, Changed: true}
	for left := slots; left > 0; left -= 8 {
		s.Nodes = append(s.Nodes, policy.Node{ID: fmt.Sprint("node-", len(s.Nodes)), GPUs: min(left, 8)})
	}
	for i := range jobs {
		name := fmt.Sprint("queue-", rng.IntN(queues))
		j := policy.Job{
			ID: fmt.Sprint(name, "/job-", i), Namespace: name, Queue: name, Tenant: name, Weight: 1, Submit: float64(i) * 1e6 / float64(jobs),
			Min: 1, Max: 64, Preferred: 1 << rng.IntN(6), Preemptible: rng.IntN(2) == 0, Curve: curves[rng.IntN(len(curves))],
		}
		if n := min(1+rng.IntN(2*slots/jobs), 64); n <= slots {
			slots -= n
			j.Count, j.FirstStart, j.LastChange = n, j.Submit, j.Submit
			j.RunTime = 1e6 - j.Submit
			j.Attained = j.RunTime * float64(n)
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// bench is a policy with a snapshot for it.
type bench struct {
	name string
	policy.Policy
	*policy.Snapshot
}

// benches returns decisions to measure: without queues, with a thousand of them, and with a
// thousand that have a past and a budget, of which a tenth has spent it.
func benches(b *testing.B, changed bool) (out []bench) {
	const queues, jobs, slots = 1_000, 10_000, 100_000
	var all, timed []queue.Queue
	past, rng := map[string]queue.Past{}, rand.New(rand.NewPCG(3, 4))
	for top := range 10 { // three levels
		one := queue.Queue{Name: fmt.Sprint("top-", top), Guarantee: 8_000, Weight: queue.WeightUnit}
		for k := range queues / 10 {
			one.Queues = append(one.Queues, queue.Queue{Name: fmt.Sprint("queue-", top*queues/10+k), Guarantee: 50, Weight: queue.WeightUnit + k})
		}
		all = append(all, one)
		one.Queues = slices.Clone(one.Queues)
		for k := range one.Queues {
			q := &one.Queues[k]
			q.HalfLife, q.Budget = 168*hour, &queue.Budget{SlotHours: 1, Per: queue.Month, Stop: k%20 == 0}
			past[queue.Key(q.Name)] = queue.Past{Borrowed: rng.IntN(100_000), Cost: rng.IntN(100_000), Spent: float64(rng.IntN(10)) / 9}
		}
		timed = append(timed, one)
	}
	base := policyOf(b, "kolo")
	out = []bench{{name: "queues=0", Policy: base}, {name: fmt.Sprint("queues=", queues), Policy: New(treeOf(b, all...), base, nil)}, {name: "past", Policy: New(treeOf(b, timed...), base, nil)}}
	for i := range out {
		s := crowd(queues, jobs, slots)
		s.Past = past
		if s.State = out[i].Allocate(s).State; changed {
			s.State = nil
		}
		s.Changed, out[i].Snapshot = changed, s
	}
	return out
}

// BenchmarkAllocate measures one decision.
func BenchmarkAllocate(b *testing.B) {
	for _, changed := range []bool{true, false} {
		for _, of := range benches(b, changed) {
			b.Run(fmt.Sprintf("%s/changed=%t", of.name, changed), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					of.Allocate(of.Snapshot)
				}
			})
		}
	}
}

// BenchmarkRatio compares the processor time of decisions with and without queues. They
// alternate, so that other work of the machine slows down both.
func BenchmarkRatio(b *testing.B) {
	for _, changed := range []bool{true, false} {
		b.Run(fmt.Sprintf("changed=%t", changed), func(b *testing.B) {
			all := benches(b, changed)
			took := make([]time.Duration, len(all))
			for b.Loop() {
				for i, of := range all {
					start := processorTime(b)
					of.Allocate(of.Snapshot)
					took[i] += processorTime(b) - start
				}
			}
			for i, of := range all {
				b.ReportMetric(float64(took[i])/float64(took[0]), of.name)
			}
			b.ReportMetric(took[0].Seconds()*1000/float64(b.N), "ms")
		})
	}
}

// processorTime returns the processor time that the process has used.
func processorTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	must.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
