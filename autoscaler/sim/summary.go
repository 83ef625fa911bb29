// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"math"
	"slices"
)

// Summary is one simulation in a few numbers. Times are in seconds.
type Summary struct {
	Jobs       int `json:"jobs"`
	Unfinished int `json:"unfinished"` // their time until the end counts as JCT

	JCT      Stats `json:"jct"`
	Queueing Stats `json:"queueing"` // time without any worker
	Wait     Stats `json:"wait"`     // from submission to the first worker

	Makespan      float64 `json:"makespan"`
	GPUHours      float64 `json:"gpu_hours"`
	Utilisation   float64 `json:"utilisation"` // held GPU time over available GPU time, until the makespan
	Productive    float64 `json:"productive"`  // share of the held GPU time that was trained and not lost
	Scattered     float64 `json:"scattered"`   // share of the held GPU time on more nodes than needed
	ResizesPerJob float64 `json:"resizes_per_job"`
	MovesPerJob   float64 `json:"migrations_per_job,omitempty"`

	Fairness Stats   `json:"fairness"` // finish-time fairness
	Unfair   float64 `json:"unfair"`   // share of jobs with a fairness above 1

	Deadlines int `json:"deadlines"` // jobs with one
	Missed    int `json:"missed"`

	Decisions int `json:"decisions"`
	Refused   int `json:"refused"` // wanted counts that found no place

	Queues []QueueResult `json:"queues,omitempty"`
}

// Stats describes a sample.
type Stats struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Summarize computes the summary of a result.
func Summarize(r *Result) Summary {
	s := Summary{Jobs: len(r.Jobs), Makespan: r.Makespan, Decisions: r.Decisions, Refused: r.Refused, Queues: r.Queues}
	n := len(r.Jobs)
	if n == 0 {
		return s
	}
	jct, queueing, wait, fair := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	attained, resizes, moves, unfair := 0.0, 0, 0, 0
	for i := range r.Jobs {
		j := &r.Jobs[i]
		jct[i], queueing[i], fair[i] = j.JCT(), j.Queueing(), j.Fairness
		wait[i] = j.JCT()
		if j.RunTime > 0 {
			wait[i] = j.Start - j.Submit
		}
		attained += j.Attained
		resizes += j.Resizes
		moves += j.Moves
		if j.Fairness > 1 {
			unfair++
		}
		if !j.Ended {
			s.Unfinished++
		}
		if j.Deadline > 0 {
			s.Deadlines++
		}
		if j.Missed() {
			s.Missed++
		}
	}
	s.JCT, s.Queueing, s.Wait, s.Fairness = describe(jct), describe(queueing), describe(wait), describe(fair)
	s.GPUHours = attained / 3600
	s.ResizesPerJob = float64(resizes) / float64(n)
	s.MovesPerJob = float64(moves) / float64(n)
	s.Unfair = float64(unfair) / float64(n)
	if r.Capacity > 0 {
		s.Utilisation = r.Held / r.Capacity
	}
	if r.Held > 0 {
		s.Productive = 1 - (r.Gap+r.Lost)/r.Held
		s.Scattered = r.Scattered / r.Held
	}
	return s
}

// describe returns the statistics of values. It sums them in the given order, then sorts
// them in place.
func describe(v []float64) Stats {
	s := Stats{}
	for _, x := range v {
		s.Mean += x
	}
	s.Mean /= float64(len(v))
	slices.Sort(v)
	s.Median, s.P99, s.Max = quantile(v, 0.5), quantile(v, 0.99), v[len(v)-1]
	return s
}

// quantile interpolates linearly between the two nearest of sorted values, as R and NumPy
// do. (gonum/stat has no such rule: its median of four values is the second.)
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	lo := int(math.Floor(at))
	hi := min(lo+1, len(sorted)-1)
	f := at - float64(lo)
	return sorted[lo]*(1-f) + sorted[hi]*f
}
