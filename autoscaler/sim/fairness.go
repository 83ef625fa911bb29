// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// fairness fills in JobResult.Fairness.
func fairness(jobs []trace.Job, nodes []trace.Node, results []JobResult) {
	gpus := 0.0
	for _, n := range nodes {
		gpus += float64(n.GPUs)
	}
	crowd := newCrowd(results)
	for i := range results {
		r := &results[i]
		life := r.JCT()
		if life <= 0 {
			continue
		}
		mean := max(1, (crowd.until(r.Done)-crowd.until(r.Submit))/life)
		r.Fairness = life / ideal(&jobs[i], gpus/mean)
	}
}

// crowd is the integral of the number of present jobs over time.
type crowd struct {
	times []float64
	sum   []float64 // up to times[i]
	count []int     // from times[i] on
}

func newCrowd(results []JobResult) *crowd {
	type step struct {
		time float64
		by   int
	}
	steps := make([]step, 0, 2*len(results))
	for i := range results {
		steps = append(steps, step{results[i].Submit, 1}, step{results[i].Done, -1})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.time, b.time) })
	c := &crowd{}
	n, sum, last := 0, 0.0, 0.0
	for _, s := range steps {
		sum += float64(n) * (s.time - last)
		n, last = n+s.by, s.time
		if k := len(c.times) - 1; k >= 0 && c.times[k] == s.time {
			c.count[k] = n
			continue
		}
		c.times, c.sum, c.count = append(c.times, s.time), append(c.sum, sum), append(c.count, n)
	}
	return c
}

// until returns the integral up to a time.
func (c *crowd) until(t float64) float64 {
	i, found := slices.BinarySearch(c.times, t)
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	return c.sum[i] + float64(c.count[i])*(t-c.times[i])
}

// ideal returns how long the job would take alone on a number of GPUs, at the best size
// that they allow. With fewer GPUs than its minimum, the job is assumed to have its
// minimum for a part of the time.
func ideal(j *trace.Job, gpus float64) float64 {
	room := gpus / float64(max(1, j.PerWorker))
	if room < float64(j.Min) {
		return j.Duration(j.Min) * float64(j.Min) / room
	}
	best := math.Inf(1)
	most := j.Sizes.Fit(int(room), j.Min, j.Max)
	for n := j.Sizes.Above(j.Min - 1); n > 0 && n <= most; n = j.Sizes.Above(n) {
		best = min(best, j.Duration(n))
	}
	return best
}
