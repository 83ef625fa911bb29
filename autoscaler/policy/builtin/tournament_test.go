// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// plainAFSL is the rule as published: a walk over all jobs for every GPU.
func plainAFSL(jobs []*candidate, left []float64, free int) []int {
	n := make([]int, len(jobs))
	in := make([]int, len(jobs))
	for i := range in {
		in[i] = i
	}
	length := func(i int) float64 {
		if n[i] == 0 {
			return math.Inf(1)
		}
		return left[i] / jobs[i].speed(n[i])
	}
	for free > 0 && len(in) > 0 {
		a := in[0]
		for _, b := range in[1:] {
			if n[a] == 0 && n[b] == 0 {
				if left[b] <= left[a] {
					a = b
				}
				continue
			}
			x, y := b, a
			if length(a) < length(b) {
				x, y = a, b
			}
			sy, sx := jobs[y].speed(n[y]+1), jobs[x].speed(n[x])
			if (sy-jobs[y].speed(n[y]))/sy > (jobs[x].speed(n[x]+1)-sx)/sx {
				a = y
			} else {
				a = x
			}
		}
		n[a]++
		free--
		if n[a] >= jobs[a].high || jobs[a].speed(n[a]+1) <= jobs[a].speed(n[a]) {
			in = slices.DeleteFunc(in, func(i int) bool { return i == a })
		}
	}
	return n
}

func TestTournament_EqualsPlainWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		curves := rapid.SliceOfN(rapid.Custom(drawCurve), 1, 5).Draw(t, "curves")
		jobs := make([]*candidate, rapid.IntRange(0, 40).Draw(t, "jobs"))
		left := make([]float64, len(jobs))
		for i := range jobs {
			j := &policy.Job{Min: 1, Max: rapid.IntRange(1, 24).Draw(t, "max"), Curve: rapid.SampledFrom(curves).Draw(t, "curve")}
			jobs[i] = &candidate{}
			fit(jobs[i], j, i)
			// Few values, so that ties are common.
			left[i] = float64(rapid.IntRange(1, 6).Draw(t, "left")) * rapid.SampledFrom([]float64{1, 100, 0.3}).Draw(t, "unit")
		}
		free := rapid.IntRange(0, 300).Draw(t, "free")
		want := plainAFSL(jobs, left, free)
		p := &pool{gpus: free, free: free, jobs: jobs}
		newTournament(jobs, left).run(p)
		for i, c := range jobs {
			if c.n != want[i] {
				t.Fatalf("job %d got %d, the plain walk gives %d", i, c.n, want[i])
			}
		}
	})
}
