// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Declared and predicted lengths of a queue's jobs influence no decision outside of the
// queue.
func TestPolicy_LengthsStayInTheirQueue(t *testing.T) {
	for _, line := range builtin.Policies.Names() {
		t.Run(line, func(t *testing.T) {
			for seed := range uint64(40) {
				rng := rand.New(rand.NewPCG(seed, 7))
				tree := treeOf(t, q("honest", 6), q("other", 4))
				w := newTable(t, 16, New(tree, policyOf(t, line), nil))
				for k := range 8 {
					w.job(string(rune('a'+k)), []string{"honest", "other"}[k%2], 1, 1+rng.IntN(8), func(j *policy.Job) {
						j.Curve = speedup.CurveOf(4, 2, 1.5, 1.1)
						j.Preemptible, j.Submit = true, float64(k)
						j.Remaining, j.Alike = anyLength(rng)
					})
				}
				for range 4 {
					var first []int
					for range 3 {
						s := w.s
						s.Jobs = slices.Clone(w.s.Jobs)
						for i := range s.Jobs {
							if s.Jobs[i].Queue == "other" {
								s.Jobs[i].Remaining, s.Jobs[i].Alike = anyLength(rng)
							}
						}
						d := w.p.Allocate(&s)
						var counts []int
						for i := range s.Jobs {
							if s.Jobs[i].Queue == "honest" {
								counts = append(counts, d.Allocations[i].Count)
							}
						}
						if first == nil {
							first = counts
						}
						must.Eq(t, first, counts, must.Sprintf("seed %d", seed))
					}
					w.decide()
					w.s.Now += 100
					for i := range w.s.Jobs {
						j := &w.s.Jobs[i]
						j.Attained, j.RunTime = j.Attained+100*float64(j.Count), j.RunTime+100
					}
				}
			}
		})
	}
}

// anyLength returns a declaration and a prediction.
func anyLength(rng *rand.Rand) (remaining float64, alike length.Sample) {
	if rng.IntN(2) == 0 {
		remaining = math.Pow(10, 9*rng.Float64()-3)
	}
	if rng.IntN(2) == 0 {
		alike = length.Sample{Origin: length.Kind, Count: 16, Median: math.Pow(10, 6*rng.Float64()), Spread: 0.1 + rng.Float64()}
	}
	return remaining, alike
}
