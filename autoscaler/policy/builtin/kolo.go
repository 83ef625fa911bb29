// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// kolo is Kolo's own policy and the default. It needs no declared length, no curve
// known beforehand and no hints from users, but uses them if given.
//
// It maximises the sum over jobs of weight × speed-up^(1-fairness), where
//
//   - weight falls with a job's expected length: its remaining work if declared, else
//     a prediction from similar jobs (package length), else its attained service,
//     because a job that has run long will probably continue to run long.
//     Beyond a ceiling it stops falling: among long jobs, the longest is as likely
//     to end as any other. If a job of unknown length waits far longer than others
//     did, its weight rises, so that it does not starve.
//   - The exponent below one makes a first GPU worth more than a tenth one, beyond
//     what the curve says. More jobs run at once, at sizes where they are
//     efficient.
//   - The speed-up at a new size is reduced by the cost of the resize, spread over
//     the time that the new size is expected to last. That is at most the time the
//     job has run so far, because a young job may end soon. If a resize takes a
//     second, almost every gain is taken; if it takes a minute, few are.
//   - A running job of unknown length keeps its GPUs unless another one is worth
//     clearly more.
//   - A job may grow to twice the largest size it was measured at (at first, to its
//     preferred size). A wrong guess of the curve then costs one step, not half the
//     cluster. If resizes are cheap, a job that adapts its batch size starts at its minimum
//     and may grow to four times the largest measured size: it scales badly at first, and
//     better and better later.
//
// The sum is maximised along the upper concave hull of each job's value. The hull
// crosses dips of measured curves and keeps small differences from causing resizes.
// docs/research.md describes how the parameters were found and what did not work.
type kolo struct {
	Fairness   float64 `hcl:"fairness,optional" doc:"how much less a further speed-up of the same job is worth: with 0, the sum of speed-ups is maximised; the closer to 1, the more evenly jobs share"`
	Age        float64 `hcl:"age,optional" doc:"exponent with which a job's weight falls with its attained service or expected remaining work"`
	Prior      float64 `hcl:"prior,optional" doc:"GPU-seconds of service (or declared remaining work) below which jobs count as about equally short"`
	Ceiling    float64 `hcl:"ceiling,optional" doc:"GPU-seconds of service beyond which longer jobs count alike; for declared remaining work, four times this value"`
	Horizon    float64 `hcl:"horizon,optional" doc:"seconds within which a resize must pay for itself; for young jobs, only as long as they have run so far"`
	Explore    float64 `hcl:"explore,optional" doc:"largest size to try, as a multiple of the largest measured size"`
	StartSmall float64 `hcl:"start_small,optional" doc:"resize cost in seconds up to which a job that adapts its batch size starts at its minimum, and may grow to four times its largest measured size; 0 is never"`
	Patience   float64 `hcl:"patience,optional" doc:"a job of unknown length counts as new, with twice its weight, once it has waited this many times as long as it ran; only waiting beyond three times the median wait of the running jobs counts; 0 ignores waiting"`
	Tail       float64 `hcl:"tail,optional" doc:"0 minimises the mean JCT; 1 gives long jobs the same weight as short ones, so the longest jobs end earlier, but the mean JCT is higher"`
	Period     float64 `hcl:"period,optional" doc:"seconds after which the policy plans again while jobs wait, even if nothing happens"`
}

// Check implements registry.Checker.
func (k kolo) Check() (string, string) {
	switch {
	case !(k.Fairness >= 0 && k.Fairness < 1):
		return "fairness", "must be at least 0 and below 1"
	case !(k.Age >= 0 && k.Age <= 4):
		return "age", "must be between 0 and 4"
	case !(k.Prior > 0):
		return "prior", "must be positive"
	case !(k.Ceiling > 0):
		return "ceiling", "must be positive"
	case !(k.Horizon > 0):
		return "horizon", "must be positive"
	case !(k.Explore > 1):
		return "explore", "must be above 1"
	case !(k.StartSmall >= 0):
		return "start_small", "must not be negative"
	case !(k.Patience >= 0):
		return "patience", "must not be negative"
	case !(k.Tail >= 0 && k.Tail <= 1):
		return "tail", "must be between 0 and 1"
	case !(k.Period > 0):
		return "period", "must be positive"
	}
	return "", ""
}

var koloDefaults = kolo{Fairness: 0.35, Age: 0.8, Prior: 8000, Ceiling: 50_000, Horizon: 350, Explore: 2, StartSmall: 5, Patience: 4, Period: 600}

var koloEntry = registry.Define(registry.Info{
	Name:   "kolo",
	Doc:    "Kolo's own, and the default: GPUs go to the jobs that gain most from them, with more weight for jobs with little service. Sizes are measured ones or one step larger, and resizes must pay for themselves.",
	Source: "Kolo; see docs/research.md. Builds on least attained service (Tiresias), marginal gain (FfDL, AFS) and bounded exploration (Pollux)",
	Needs:  "nothing; uses measured step times, declared remaining work, the lengths of similar jobs, weights and measured resize cost where there are any",
	Trusts: registry.Lengths,
}, koloDefaults, kolo.allocate)

// koloState is the last plan and the time it was made.
type koloState struct {
	standing
	Planned float64 `json:"planned"`
}

// firstSize is how large a job without a preferred size may start.
const firstSize = 4

// leastResizeCost is the least cost of a resize in seconds: it stands for the work
// that a resize causes even if the job loses next to nothing.
const leastResizeCost = 0.5

// worstCut bounds the part of a new size's speed that a resize may cost.
const worstCut = 0.65

// freshHorizon is how many more seconds a job that just arrived is expected to run.
// Each second that it runs adds one.
const freshHorizon = 60

func (k kolo) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[koloState](s)
	waiting := slices.ContainsFunc(s.Jobs, func(j policy.Job) bool { return j.Count == 0 })
	due := waiting && s.Now-state.Planned >= k.Period
	if s.Changed || due || !state.keep(&d, pools) {
		state.Planned = s.Now
		for _, p := range pools {
			k.plan(s, p)
		}
		settle(&d, pools)
		state.remember(s, &d)
	}
	if slices.ContainsFunc(d.Allocations, func(a policy.Allocation) bool { return a.Count == 0 }) {
		requeue(&d, s.Now, state.Planned+k.Period)
	}
	save(&d, state)
	return d
}

// plan divides the pool among its jobs.
func (k kolo) plan(s *policy.Snapshot, p *pool) {
	p.pin()
	p.ordinary = p.ordinaryWait(s.Now)
	// edges holds the edges of all hulls, job after job; next and end delimit those
	// of each job. Slopes fall along a hull, so the best edge is always the next
	// one of some job. Heaps of these next edges suffice, and edges that no GPU is
	// left for are never sorted.
	var h hull
	edges := make([]vertex, 0, 8*len(p.jobs))
	next, end := make([]int, len(p.jobs)), make([]int, len(p.jobs))
	var starts, growth bids
	for i, c := range p.jobs {
		k.worth(s, p, c, &h)
		next[i] = len(edges) + 1
		edges = append(edges, h...)
		end[i] = len(edges)
		if len(h) > 1 {
			b := bid{c: c, rank: i, to: h[1].n, gain: h.slope(1), tier: c.Priority}
			if c.n == 0 {
				starts = append(starts, b)
			} else {
				growth = append(growth, b)
			}
		}
	}
	starts.init()
	growth.init()
	var late []*candidate
	for p.free > 0 && len(starts)+len(growth) > 0 {
		best := &growth
		if len(growth) == 0 || len(starts) > 0 && starts[0].outbids(&growth[0]) {
			best = &starts
		}
		b := (*best)[0]
		best.pop()
		if !p.set(b.c, b.to) {
			late = append(late, b.c)
			continue
		}
		if next[b.rank]++; next[b.rank] < end[b.rank] {
			to := next[b.rank]
			b.to, b.gain = edges[to].n, hull(edges).slope(to)
			growth.push(b)
		}
	}
	// Steps that did not fit whole are tried at the size that fits, if that is
	// still worth a resize.
	for _, c := range late {
		if p.free == 0 {
			break
		}
		if k.worth(s, p, c, &h); len(h) > 1 {
			p.set(c, h[1].n)
		}
	}
	for _, c := range p.jobs {
		c.why = c.explain()
	}
}

// outbids reports whether the best start goes before the best growth. Priority
// orders starts among each other, and growth among each other. Between the two,
// growth of a higher priority precedes a start only if it gains more.
func (b *bid) outbids(growth *bid) bool {
	if b.tier > growth.tier {
		return true
	}
	start := *b
	start.tier = growth.tier
	return start.before(growth)
}

// worth fills in the hull of the job's value by size, from the current size up to
// the largest that the free GPUs and the exploration limit allow.
func (k kolo) worth(s *policy.Snapshot, p *pool, c *candidate, h *hull) {
	weight, cut := k.weight(s, p, c), k.cut(s, c)
	power := 1 - k.Fairness
	weight /= power
	value := func(n int) float64 {
		speed := c.speed(n)
		if n != c.Count {
			speed *= cut
		}
		// This is speed^power; math.Pow computes the same at twice the price.
		return weight * math.Exp(power*math.Log(speed))
	}
	base := value(c.n)
	if _, known := c.left(); !known && c.n == 0 && c.Count > 0 {
		base = -margin * value(c.low)
	}
	h.reset(c.n, float64(c.cost(c.n)), base)
	limit := k.limit(s, c)
	for n := c.stride(c.n); n > 0 && n <= limit; n = c.stride(n) {
		if c.cost(n)-c.cost(c.n) > p.free {
			break
		}
		h.add(n, float64(c.cost(n)), value(n))
	}
	h.trim()
}

// cut returns the part of its speed that a job keeps after a resize, averaged over
// the time in which the resize has to pay off.
func (k kolo) cut(s *policy.Snapshot, c *candidate) float64 {
	horizon := min(k.Horizon, freshHorizon+c.RunTime)
	if left, ok := c.left(); ok {
		// A job that claims to be about to end keeps its size no more firmly than a
		// fresh one: the claim may be false.
		horizon = min(horizon, max(freshHorizon, left/max(c.speed(c.Count), 1)))
	}
	return 1 - min(worstCut, max(s.ResizeCost, leastResizeCost)/horizon)
}

// exploreAdapting is the least Explore of a job that starts small.
const exploreAdapting = 4

// limit returns the largest size worth trying: Explore times the largest measured size,
// but at least the first size and the current one.
func (k kolo) limit(s *policy.Snapshot, c *candidate) int {
	first, explore := c.want, k.Explore
	switch {
	case c.Adapts && k.StartSmall > 0 && s.ResizeCost <= k.StartSmall:
		first, explore = c.low, max(explore, exploreAdapting)
	case c.Preferred <= 0:
		first = max(c.low, firstSize)
	}
	tried := explore * float64(c.Curve.Largest())
	return max(first, int(min(tried, float64(c.high))), c.Count)
}

// stride returns the next size to consider: every size while sizes are small, then
// sizes about 3 % apart, and always the current size.
func (c *candidate) stride(n int) int {
	to := c.next(n)
	if far := c.floor(n + n/32); to > 0 && far > to {
		to = far
	}
	if n < c.Count && c.Count < to && c.floor(c.Count) == c.Count {
		to = c.Count
	}
	return to
}

// explain returns, in a user's words, why kolo gave a job its count.
func (c *candidate) explain() string {
	switch {
	case c.n == 0:
		return "other jobs gain more from the GPUs for now"
	case c.n == c.Count:
		return "keeps its size: no change would pay for its resize"
	case c.n < c.Count:
		return "other jobs gain more from these GPUs"
	case !c.Curve.Known(c.n):
		return "a size that is not measured yet and promises most per GPU"
	}
	return "gains more from these GPUs than other jobs would"
}
