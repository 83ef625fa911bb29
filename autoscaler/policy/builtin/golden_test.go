// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// linear scales perfectly up to 8 workers, one second per step at one.
var linear = speedups(1, 2, 3, 4, 5, 6, 7, 8)

// speedups makes a curve with one second per step at one worker.
func speedups(s ...float64) speedup.Curve {
	times := make([]float64, len(s))
	for i, x := range s {
		times[i] = 1 / x
	}
	return speedup.CurveOf(times...)
}

// cluster is a snapshot of one node with jobs that arrive one second apart
// and may be suspended.
func cluster(gpus int, jobs ...policy.Job) *policy.Snapshot {
	s := &policy.Snapshot{Now: 10_000, Changed: true, ResizeCost: 30, Nodes: []policy.Node{{ID: "n", GPUs: gpus}}}
	for i, j := range jobs {
		j.ID = fmt.Sprint("job", i)
		j.Submit = float64(i)
		j.Preemptible = true
		j.Min = max(j.Min, 1)
		if j.Max == 0 {
			j.Max = 8
		}
		if !j.Curve.Measured() {
			j.Curve = linear
		}
		if j.Count > 0 && j.FirstStart == 0 {
			j.FirstStart = j.Submit
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// adapting is a cluster of 64 GPUs with jobs that adapt their batch size. A job without a
// curve was not measured.
func adapting(cost float64, jobs ...policy.Job) *policy.Snapshot {
	s := cluster(64, jobs...)
	s.ResizeCost = cost
	for i := range s.Jobs {
		s.Jobs[i].Adapts = true
		s.Jobs[i].Curve = jobs[i].Curve
	}
	return s
}

func counts(d policy.Decision) []int {
	n := make([]int, len(d.Allocations))
	for i, a := range d.Allocations {
		n[i] = a.Count
	}
	return n
}

func TestGolden(t *testing.T) {
	tired := policy.Job{Count: 4, Preferred: 4, Attained: 60_000, RunTime: 15_000}
	steep, flat := speedups(1, 1.8, 2.4, 2.8), speedups(1, 1.2, 1.3, 1.35)
	cases := map[string]struct {
		policy string
		s      *policy.Snapshot
		want   []int
	}{
		"fifo strict: no one overtakes the head": {
			`fifo(strict=true)`, cluster(4, policy.Job{Preferred: 3}, policy.Job{Preferred: 2}, policy.Job{Preferred: 1}), []int{3, 0, 0},
		},
		"fifo backfill: the third job fills the gap": {
			"fifo", cluster(4, policy.Job{Preferred: 3}, policy.Job{Preferred: 2}, policy.Job{Preferred: 1}), []int{3, 0, 1},
		},
		"fifo never touches a running job": {
			"fifo", cluster(4, policy.Job{Preferred: 2}, policy.Job{Preferred: 4, Count: 4}), []int{0, 4},
		},
		"fifo: a wish larger than the cluster becomes the cluster": {
			"fifo", cluster(4, policy.Job{Preferred: 8}), []int{4},
		},
		"elastic-fifo: minima, then turns": {
			"elastic-fifo", cluster(8, policy.Job{Max: 4}, policy.Job{Max: 4}, policy.Job{Max: 4}), []int{3, 3, 2},
		},
		"elastic-fifo: a job with a large minimum waits, a small one behind it starts": {
			"elastic-fifo", cluster(4, policy.Job{Min: 3, Max: 3}, policy.Job{Min: 2}, policy.Job{Max: 1}), []int{3, 0, 1},
		},
		"elastic-fifo: the floor stops jobs that do not scale": {
			"elastic-fifo(efficiency=0.25)", cluster(8, policy.Job{Curve: flat, Max: 4}, policy.Job{Curve: steep, Max: 4}), []int{1, 4},
		},
		"srjf: 100, 10 and 50 steps left at two workers each": {
			"srjf", cluster(4, policy.Job{Preferred: 2, Remaining: 100}, policy.Job{Preferred: 2, Remaining: 10}, policy.Job{Preferred: 2, Remaining: 50}), []int{0, 2, 2},
		},
		"elastic-srjf: the shortest start, the last GPU goes to the shortest": {
			"elastic-srjf", cluster(3, policy.Job{Remaining: 100}, policy.Job{Remaining: 10}, policy.Job{Remaining: 50, Min: 2}), []int{0, 1, 2},
		},
		"tiresias: 60,000 GPU-seconds fall behind a newcomer": {
			"tiresias", cluster(4, tired, policy.Job{Preferred: 4}), []int{0, 4},
		},
		"tiresias: within a queue the running job stays": {
			"tiresias", cluster(4, policy.Job{Preferred: 4}, policy.Job{Preferred: 4, Count: 4, Attained: 40_000, RunTime: 10_000}), []int{0, 4},
		},
		"elastic-tiresias: few wait, so the old job keeps its size": {
			"elastic-tiresias(compaction=1)", cluster(4, tired, policy.Job{Min: 2, Preferred: 4, Count: 0}), []int{0, 4},
		},
		"elastic-tiresias: many wait, so the old job shrinks and one starts": {
			"elastic-tiresias(compaction=1)", cluster(6,
				tired, policy.Job{Max: 2, Preferred: 2, Count: 2, Attained: 20}, policy.Job{Min: 3, Preferred: 8}, policy.Job{Min: 3, Preferred: 8}), []int{1, 2, 3, 0},
		},
		"ffdl: 2.8 + 1 beats 2.4 + 1.2": {
			"ffdl", cluster(5, policy.Job{Curve: flat, Max: 4}, policy.Job{Curve: steep, Max: 4}), []int{1, 4},
		},
		"ffdl: a dip is worth crossing": {
			"ffdl", cluster(5, policy.Job{Curve: speedups(1, 0.9, 0.8, 4), Max: 4}, policy.Job{Curve: steep, Max: 4}), []int{4, 1},
		},
		"ffdl greedy: stops before a dip": {
			`ffdl(method="greedy")`, cluster(5, policy.Job{Curve: speedups(1, 0.9, 0.8, 4), Max: 4}, policy.Job{Curve: steep, Max: 4}), []int{1, 4},
		},
		"ffdl: admission ends at the first job that does not fit": {
			"ffdl", cluster(3, policy.Job{Max: 1}, policy.Job{Min: 3}, policy.Job{Max: 1}), []int{1, 0, 0},
		},
		"afs-l: the longer job would use the third GPU much better": {
			"afs-l", cluster(3, policy.Job{Remaining: 100, Curve: speedups(1, 1.2)}, policy.Job{Remaining: 200, Curve: speedups(1, 1.9)}), []int{1, 2},
		},
		"afs-l: the shorter job uses it well enough": {
			"afs-l", cluster(3, policy.Job{Remaining: 100, Curve: speedups(1, 1.9), Max: 2}, policy.Job{Remaining: 200, Curve: speedups(1, 1.2), Max: 2}), []int{2, 1},
		},
		"afs-l blind: least service counts as shortest": {
			"afs-l(blind=true)", cluster(1, policy.Job{Remaining: 1, Attained: 500}, policy.Job{Remaining: 1e6}), []int{0, 1},
		},
		"afs-l: the cap holds a job that was resized often": {
			"afs-l(restart_cap=3)", cluster(4, policy.Job{Remaining: 10, Count: 1, Resizes: 3}, policy.Job{Remaining: 10, Count: 1, Resizes: 2}), []int{1, 3},
		},
		"optimus: each GPU to the job that ends sooner by most": {
			// 1000 (1/1-1/2) = 500, then 1000 (1/2-1/3) = 167; the other saves 50.
			"optimus", cluster(4, policy.Job{Remaining: 1000}, policy.Job{Remaining: 100}), []int{3, 1},
		},
		"dragon: a job that waited two minutes makes another shrink": {
			"dragon", cluster(4, policy.Job{Min: 1, Preferred: 4, Count: 4}, policy.Job{Min: 2, Preferred: 2}), []int{2, 2},
		},
		"themis: the job furthest behind goes first": {
			// Both have 100 steps left of 100; job1 did not wait 10,000 s for it.
			"themis", func() *policy.Snapshot {
				s := cluster(4, policy.Job{Preferred: 4, Remaining: 100}, policy.Job{Preferred: 4, Remaining: 100})
				s.Jobs[1].Submit = s.Now
				return s
			}(), []int{4, 0},
		},
		"elasticflow: 100 steps in 60 s need two workers, the rest is best effort": {
			"elasticflow", cluster(3, policy.Job{Remaining: 1e6}, policy.Job{Remaining: 100, Deadline: 10_060}), []int{1, 2},
		},
		"elasticflow: a deadline that cannot be met is no guarantee": {
			"elasticflow", cluster(8, policy.Job{Remaining: 1000, Deadline: 10_060, Min: 8}, policy.Job{Remaining: 100, Deadline: 10_060}), []int{0, 8},
		},
		"gandiva: no job waits, so jobs grow": {
			"gandiva", cluster(8, policy.Job{Preferred: 2, Max: 4}, policy.Job{Preferred: 1, Curve: speedups(1, 1)}), []int{4, 1},
		},
		"gandiva: a newcomer makes the grown job shrink to its preferred size": {
			"gandiva", cluster(4, policy.Job{Preferred: 2, Count: 4}, policy.Job{Preferred: 2}), []int{2, 2},
		},
		"weighted-fair: three to one": {
			"weighted-fair(shares={red=3, blue=1})", cluster(8, policy.Job{Tenant: "blue"}, policy.Job{Tenant: "red"}), []int{2, 6},
		},
		"weighted-fair: what blue leaves is lent": {
			"weighted-fair(shares={red=3, blue=1})", cluster(8, policy.Job{Tenant: "red"}), []int{8},
		},
		"weighted-fair: without borrowing it stays idle": {
			"weighted-fair(shares={red=3, blue=1}, borrow=false)", cluster(8, policy.Job{Tenant: "red"}), []int{6},
		},
		"weighted-fair: inside a tenant by weight": {
			"weighted-fair", cluster(6, policy.Job{Weight: 2}, policy.Job{Weight: 1}), []int{4, 2},
		},
		"weighted-fair: a dip of the curve takes nothing from a job beyond it": {
			"weighted-fair", cluster(8, policy.Job{Count: 4, Curve: speedups(1, 2, 1.9, 3), Max: 4}), []int{4},
		},
		"weighted-fair: a size that brings nothing is left to those who gain": {
			"weighted-fair", cluster(6, policy.Job{Count: 4, Curve: speedups(1, 2, 2, 2), Max: 4}, policy.Job{Count: 2, Max: 4}), []int{2, 4},
		},
		"weighted-fair: or kept where no job does": {
			"weighted-fair", cluster(8, policy.Job{Count: 4, Curve: speedups(1, 2, 2, 1.95), Max: 4}, policy.Job{Count: 2, Max: 4}), []int{4, 4},
		},
		"weighted-fair: but not if it harms": {
			"weighted-fair", cluster(8, policy.Job{Count: 4, Curve: speedups(1, 2, 2, 1.8), Max: 4}), []int{2},
		},
		"pollux: the harmonic mean of speed-ups over the fair share": {
			// The fair share is 2: 1.8/2.4 + 1.2/1.2 = 1.75 is less than 1.8/2.8 + 1.2/1 = 1.84
			// and 1.8/1.8 + 1.2/1.3 = 1.92, although 2.8 + 1 is the highest sum of speed-ups.
			"pollux", cluster(5, policy.Job{Curve: steep, Max: 4}, policy.Job{Curve: flat, Max: 4}), []int{3, 2},
		},
		"pollux: a young job that was resized keeps its size": {
			// (100 - 30) / (100 + 30) = 0.54: 0.75 / 0.54 + 1 = 2.39 is more than 1 + 0.92.
			"pollux", func() *policy.Snapshot {
				s := cluster(5, policy.Job{Curve: steep, Max: 4, Count: 2, Resizes: 1}, policy.Job{Curve: flat, Max: 4})
				s.Now = 100
				return s
			}(), []int{2, 3},
		},
		"pollux: an old one grows": {
			// 9970 / 10030 = 0.99: 0.75 / 0.99 + 1 = 1.75.
			"pollux", cluster(5, policy.Job{Curve: steep, Max: 4, Count: 2, Resizes: 1}, policy.Job{Curve: flat, Max: 4}), []int{3, 2},
		},
		"pollux: nothing is tried beyond twice the largest measured size": {
			"pollux", cluster(64, policy.Job{Preferred: 8, Max: 64, Curve: speedup.NewCurve(speedup.Point{Size: 3, StepTime: 1})}), []int{6},
		},
		"pollux: a job without measurements has its minimum": {
			"pollux", func() *policy.Snapshot {
				s := cluster(64, policy.Job{Min: 2, Preferred: 8, Max: 64})
				s.Jobs[0].Curve = speedup.Curve{}
				return s
			}(), []int{2},
		},
		"pollux: minima in order of arrival": {
			"pollux", cluster(4, policy.Job{Min: 3, Max: 4}, policy.Job{Min: 2}, policy.Job{Max: 4}), []int{3, 0, 1},
		},
		"pollux: a job of weight 4 counts four times": {
			// The fair share is 2: 4 × 2/3 + 2/1 = 4.67 is less than 4 × 2/2 + 2/2 = 5.
			"pollux", cluster(4, policy.Job{Weight: 4}, policy.Job{Weight: 1}), []int{3, 1},
		},
		"kolo: equal jobs share equally": {
			"kolo", cluster(8, policy.Job{Preferred: 8}, policy.Job{Preferred: 8}), []int{4, 4},
		},
		"kolo: nothing is tried beyond twice the largest measured size": {
			"kolo", cluster(64, policy.Job{Preferred: 2, Max: 64, Curve: speedup.NewCurve(speedup.Point{Size: 2, StepTime: 1})}), []int{4},
		},
		"kolo: an unmeasured job starts at its preferred size": {
			"kolo", func() *policy.Snapshot {
				s := cluster(64, policy.Job{Preferred: 6, Max: 64})
				s.Jobs[0].Curve = speedup.Curve{}
				return s
			}(), []int{6},
		},
		"kolo: a job that adapts its batch size starts at its minimum": {
			"kolo", adapting(4, policy.Job{Min: 2, Preferred: 6, Max: 64}), []int{2},
		},
		"kolo: it may grow to four times the largest measured size": {
			"kolo", adapting(4, policy.Job{Preferred: 6, Max: 64, Count: 1, Curve: speedups(1)}), []int{4},
		},
		"kolo: not if resizes are expensive": {
			"kolo", adapting(6, policy.Job{Preferred: 6, Max: 64}, policy.Job{Preferred: 1, Max: 64, Curve: speedups(1)}), []int{6, 2},
		},
		"kolo: never, if the operator says so": {
			"kolo(start_small=0)", adapting(0, policy.Job{Preferred: 6, Max: 64}), []int{6},
		},
		"kolo: a little more speed does not pay for a resize": {
			"kolo", cluster(4, policy.Job{Count: 3, Attained: 100, Curve: speedups(1, 2, 3, 3.1)}), []int{3},
		},
		"kolo: the same where resizes cost next to nothing": {
			"kolo", func() *policy.Snapshot {
				s := cluster(4, policy.Job{Count: 3, Attained: 100, Curve: speedups(1, 2, 3, 3.1)})
				s.ResizeCost = 0.2
				return s
			}(), []int{4},
		},
		"kolo: a newcomer takes most from a job that ran for long": {
			"kolo", func() *policy.Snapshot {
				s := cluster(5, policy.Job{Count: 4, Attained: 1e6, RunTime: 9000, Max: 4, Curve: steep}, policy.Job{Max: 4, Preferred: 4, Curve: steep})
				s.Jobs[1].Submit = s.Now
				return s
			}(), []int{1, 4},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := Policies.Parse(tc.policy)
			must.NoError(t, err)
			d := p.Allocate(tc.s)
			for _, a := range d.Allocations {
				t.Logf("%s: %d, %s", a.Job, a.Count, a.Reason)
			}
			must.Eq(t, tc.want, counts(d))
		})
	}
}
