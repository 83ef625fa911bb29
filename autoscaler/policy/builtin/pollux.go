// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// pollux is the rule by which Pollux divides a cluster (Qiao et al., OSDI'21, section 4.2).
// It maximises the generalised mean, with power p = -1, of the jobs' speed-ups over their fair
// share:
//
//	mean = J / Σ 1/speed-up(n),   speed-up(n) = speed(n) / speed(G/J)
//
// for J jobs on G GPUs. The power makes a slow job count most. If a running job of age T
// would be resized, its speed-up is multiplied by
//
//	(T - R·δ) / (T + δ)
//
// for R resizes so far, each of which costs δ seconds. A job grows at most to twice the
// largest size that it was measured at, as in the paper (section 4.1). So a job without
// measurements has its minimum, and a job that reports no progress keeps it.
//
// The published system searches allocations by a genetic algorithm, once a minute. By count,
// the mean is a sum over jobs, so dynamic programming finds the best split. A job without
// GPUs makes the mean 0 whatever the others have. Therefore each job first gets its minimum,
// in order of arrival. Jobs with a weight count that many times.
//
// For jobs that adapt their batch size, the curve is the goodput at the best batch size, as
// in the paper. For others it is the throughput. Pollux also avoids two distributed jobs on one
// node. Counts cannot express that.
type pollux struct {
	Period float64 `hcl:"period,optional" doc:"seconds after which the policy plans again even if nothing happens"`
}

// Check implements registry.Checker.
func (p pollux) Check() (string, string) {
	if !(p.Period > 0) {
		return "period", "must be positive"
	}
	return "", ""
}

var polluxEntry = registry.Define(registry.Info{
	Name:   "pollux",
	Doc:    "Each job gets its minimum in order of arrival; then GPUs are divided so that the harmonic mean of the speed-ups over the fair share is highest, for jobs of higher priority first.",
	Source: "Pollux (OSDI'21), its rule solved exactly by dynamic programming in place of the genetic algorithm, without interference avoidance",
	Needs:  "speed-up curves (goodput, for jobs that adapt their batch size); a job without measured step times keeps its minimum",
	Trusts: registry.Times,
}, pollux{Period: 60}, pollux.allocate)

// polluxState is the last plan and the time it was made.
type polluxState struct {
	standing
	Planned float64 `json:"planned"`
}

// leastRestart bounds the factor of a resize, so that a job that was resized often still
// counts more at larger sizes.
const leastRestart = 0.01

func (p pollux) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[polluxState](s)
	if s.Changed || s.Now-state.Planned >= p.Period || !state.keep(&d, pools) {
		state.Planned = s.Now
		for _, pool := range pools {
			p.plan(s, pool, ffdlLimit)
		}
		settle(&d, pools)
		state.remember(s, &d)
	}
	if len(s.Jobs) > 0 {
		requeue(&d, s.Now, state.Planned+p.Period)
	}
	save(&d, state)
	return d
}

// plan divides the GPUs of a pool. Dynamic programming may take so many table updates.
func (p pollux) plan(s *policy.Snapshot, pool *pool, updates int) {
	pool.pin()
	order := pool.byPriority(nil)
	pool.minima(order, "its minimum, in order of arrival")
	var running []*candidate
	for _, c := range order {
		if c.n > 0 {
			c.score = fairSpeed(c, pool.gpus, len(pool.jobs))
			c.high = c.explored()
			running = append(running, c)
		}
	}
	// worth is the job's part of J/mean, as a loss.
	worth := func(c *candidate, n int) float64 {
		return -c.score / (c.speed(n) * restart(s, c, n))
	}
	const why = "part of the split with the highest harmonic mean of speed-ups over the fair share"
	if (ffdl{Method: "auto", Limit: updates}).method(pool, running) == "dp" {
		for _, tier := range tiers(running) {
			pool.maximise(tier, func(c *candidate, n int) float64 { return c.weight() * worth(c, n) }, why)
		}
		return
	}
	pool.auction(running, 0, func(c *candidate) (int, float64) {
		return pool.steepest(c, func(to int) float64 {
			return (worth(c, to) - worth(c, c.n)) / float64(c.cost(to)-c.cost(c.n))
		})
	}, why)
}

// fairSpeed returns the speed-up of a job on an equal share of the pool, or at its minimum if
// the share is smaller.
func fairSpeed(c *candidate, gpus, jobs int) float64 {
	return c.speed(max(c.low, c.floor(gpus/jobs/c.per)))
}

// explored returns the largest size that the job may grow to: twice the largest measured
// size, but at least its present size.
func (c *candidate) explored() int {
	return max(c.low, c.floor(min(2*c.Curve.Largest(), c.high)), c.floor(c.Count))
}

// restart returns the factor by which a resize lowers the speed-up of a running job.
func restart(s *policy.Snapshot, c *candidate, n int) float64 {
	if c.Count == 0 || n == c.Count {
		return 1
	}
	age := max(0, s.Now-c.Submit)
	return max(leastRestart, (age-float64(c.Resizes)*s.ResizeCost)/(age+max(s.ResizeCost, leastResizeCost)))
}
