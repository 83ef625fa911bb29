// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// Scale multiplies the number of jobs that arrive in the same time by load. For a load
// below 1, it keeps a random subset of the jobs. For a load above 1, it adds copies of
// random jobs; each copy arrives at the time of another random job. So the mix of jobs and
// the pattern of arrivals stay the same, and twice the load means twice the work. (With
// arrivals in a shorter time, the work would stay the same.) For load 1, Scale returns the
// trace itself.
func (t *Trace) Scale(load float64, seed uint64) (*Trace, error) {
	switch {
	case !finite(load) || load <= 0:
		return nil, fmt.Errorf("load %v: want more than 0", load)
	case load == 1:
		return t, nil
	}
	rng := rand.New(rand.NewPCG(seed, 0x6c6f6164)) // "load"
	want := max(1, int(load*float64(len(t.Jobs))+0.5))
	out := *t
	if want <= len(t.Jobs) {
		keep := rng.Perm(len(t.Jobs))[:want]
		slices.Sort(keep)
		out.Jobs = make([]Job, want)
		for i, k := range keep {
			out.Jobs[i] = t.Jobs[k]
		}
		return &out, nil
	}
	out.Jobs = slices.Clone(t.Jobs)
	for round := 2; len(out.Jobs) < want; round++ {
		perm, when := rng.Perm(len(t.Jobs)), rng.Perm(len(t.Jobs))
		for i := 0; i < len(perm) && len(out.Jobs) < want; i++ {
			j := t.Jobs[perm[i]]
			submit := t.Jobs[when[i]].Submit
			if j.Deadline != 0 {
				j.Deadline += submit - j.Submit
			}
			j.Submit = submit
			j.ID = fmt.Sprintf("%s+%d", j.ID, round)
			out.Jobs = append(out.Jobs, j)
		}
	}
	out.order()
	return &out, nil
}

// Elastic returns the workload with only a share of its jobs elastic, from 0 to 1. All
// other jobs have only their preferred size. A job that is elastic at one share is also
// elastic at any larger share. For share 1, Elastic returns the trace itself.
func (t *Trace) Elastic(share float64) *Trace {
	if share >= 1 {
		return t
	}
	rng := rand.New(rand.NewPCG(1, 0x656c61737469)) // "elasti"
	out := *t
	out.Jobs = slices.Clone(t.Jobs)
	for i := range out.Jobs {
		if j := &out.Jobs[i]; rng.Float64() >= share {
			n := max(j.Min, min(j.Max, j.Preferred))
			if at := j.Sizes.AtMost(n); at >= j.Min {
				n = at
			}
			j.Min, j.Max, j.Preferred, j.Sizes = n, n, n, sizes.Set{}
		}
	}
	return &out
}

// Permute returns the workload with its jobs in the same order, but with the gaps between
// arrivals in random order. The result stands for another day of the same kind, for
// confidence intervals. For seed 1, Permute returns the trace itself.
func (t *Trace) Permute(seed uint64) *Trace {
	if seed <= 1 || len(t.Jobs) < 2 {
		return t
	}
	rng := rand.New(rand.NewPCG(seed, 0x67617073)) // "gaps"
	out := *t
	out.Jobs = slices.Clone(t.Jobs)
	gaps := make([]float64, len(t.Jobs)-1)
	for i := range gaps {
		gaps[i] = t.Jobs[i+1].Submit - t.Jobs[i].Submit
	}
	rng.Shuffle(len(gaps), func(i, k int) { gaps[i], gaps[k] = gaps[k], gaps[i] })
	for i := 1; i < len(out.Jobs); i++ {
		j := &out.Jobs[i]
		was := j.Submit
		j.Submit = out.Jobs[i-1].Submit + gaps[i-1]
		if j.Deadline != 0 {
			j.Deadline += j.Submit - was
		}
	}
	return &out
}
