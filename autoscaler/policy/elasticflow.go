// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// elasticFlow guarantees deadlines: a job with one is admitted if some share
// of the GPUs meets it beside those admitted before, and holds at least the
// smallest such share. What is left serves everyone.
//
// Two departures from the paper: newcomers are fitted beside those already
// admitted, in order of deadline, rather than all re-checked for each; and
// jobs without a guarantee get their minimum before admitted ones grow
// beyond their need, so that they cannot starve.
type elasticFlow struct{ elasticFlowOptions }

type elasticFlowOptions struct {
	PowersOfTwo bool `hcl:"powers_of_two,optional" doc:"consider only powers of two as shares, as in the paper"`
}

var elasticFlowEntry = define(Info{
	Name:   "elasticflow",
	Doc:    "Admits jobs whose deadline can be met and holds the smallest share that meets it; other jobs run as best effort.",
	Source: "ElasticFlow (ASPLOS'23)",
	Needs:  "deadlines, remaining work and speed-up curves; jobs without a deadline are best effort, a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
}, elasticFlowOptions{PowersOfTwo: true}, func(o elasticFlowOptions) Policy { return &elasticFlow{o} })

// elasticFlowState is who holds a guarantee.
type elasticFlowState struct {
	Admitted []string `json:"admitted"`
}

// flowSlots bounds the time slots of a plan. Their ends are deadlines.
const flowSlots = 64

// Name implements Policy.
func (*elasticFlow) Name() string { return "elasticflow" }

// Allocate implements Policy.
func (e *elasticFlow) Allocate(s *Snapshot) Decision {
	var d Decision
	pools := split(s, &d)
	was := make(map[string]bool)
	for _, id := range load[elasticFlowState](s).Admitted {
		was[id] = true
	}
	var state elasticFlowState
	for _, p := range pools {
		p.pin()
		order := e.byDeadline(p, s.Now, was)
		plan := newFlowPlan(p, s.Now, order)
		var guaranteed []*candidate
		for _, c := range order {
			if n, ok := plan.admit(c, e.PowersOfTwo); ok {
				state.Admitted = append(state.Admitted, c.ID)
				guaranteed = append(guaranteed, c)
				if n > c.n {
					p.set(c, n)
				}
				c.why = "the smallest share that meets its deadline"
			}
		}
		if len(plan.ends) > 0 {
			d.wake(s.Now, plan.ends[0])
		}
		p.minima(guaranteed, "ahead of what its deadline needs")
		p.minima(p.byPriority(nil), "best effort")
		left := make([]float64, len(s.Jobs))
		for _, c := range p.jobs {
			left[c.place] = c.guess()
		}
		thrift := func(c *candidate) (int, float64) { return thriftiest(c, left[c.place]) }
		p.auction(guaranteed, math.Inf(-1), thrift, "uses free GPUs with least waste")
		p.auction(p.byPriority(nil), math.Inf(-1), thrift, "uses free GPUs with least waste")
	}
	settle(&d, pools)
	slices.Sort(state.Admitted)
	save(&d, state)
	return d
}

// thriftiest values a running job's next step by the GPU-time that it saves
// or, with a minus sign, costs until the job's end, per GPU.
func thriftiest(c *candidate, left float64) (int, float64) {
	if c.n == 0 {
		return 0, 0
	}
	to := c.next(c.n)
	if to == 0 || c.speed(to) <= c.speed(c.n) {
		return 0, 0
	}
	now, then := float64(c.cost(c.n)), float64(c.cost(to))
	return to, left * (now/c.speed(c.n) - then/c.speed(to)) / (then - now)
}

// byDeadline lists the jobs with a deadline ahead: those admitted before
// first, then newcomers, each by deadline.
func (e *elasticFlow) byDeadline(p *pool, now float64, was map[string]bool) []*candidate {
	var order []*candidate
	for _, c := range p.jobs {
		if c.Deadline > now {
			order = append(order, c)
		}
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := order[i], order[j]
		if was[a.ID] != was[b.ID] {
			return was[a.ID]
		}
		if a.Priority != b.Priority {
			return a.Priority > b.Priority
		}
		return cmp.Less(a.Deadline, b.Deadline)
	})
	return order
}

// flowPlan is the GPUs still free in each time slot.
type flowPlan struct {
	now   float64
	ends  []float64 // end of each slot, ascending
	free  []int
	quota []int // of the job being fitted
}

func newFlowPlan(p *pool, now float64, order []*candidate) *flowPlan {
	plan := &flowPlan{now: now}
	for _, c := range order {
		plan.ends = append(plan.ends, c.Deadline)
	}
	slices.Sort(plan.ends)
	plan.ends = slices.Compact(plan.ends)
	if n := len(plan.ends); n > flowSlots {
		// Quantiles: slots are short where deadlines are dense.
		for i := range flowSlots {
			plan.ends[i] = plan.ends[(i+1)*n/flowSlots-1]
		}
		plan.ends = plan.ends[:flowSlots]
	}
	// Jobs that must not be suspended hold their minimum throughout.
	free := p.free
	plan.free = slices.Repeat([]int{free}, len(plan.ends))
	plan.quota = make([]int, len(plan.ends))
	return plan
}

// admit finds the smallest share that ends the job by its deadline, reserves
// it, and answers how many workers that means now.
func (f *flowPlan) admit(c *candidate, powers bool) (int, bool) {
	left, fastest := c.guess(), 0.0
	for share := c.low; share > 0; share = nextShare(c, share, powers) {
		if speed := c.speed(share); speed > fastest {
			fastest = speed
			if f.fits(c, share, left) {
				for i, n := range f.quota {
					f.free[i] -= max(0, c.cost(n)-c.cost(c.n))
				}
				return f.quota[0], true
			}
		}
	}
	return 0, false
}

// nextShare is the next larger share to try, 0 after the last.
func nextShare(c *candidate, share int, powers bool) int {
	if !powers {
		return c.next(share)
	}
	power := 1
	for power <= share {
		power *= 2
	}
	n := c.floor(power)
	for n <= share {
		if power > c.high {
			return 0
		}
		power *= 2
		n = c.floor(power)
	}
	return n
}

// fits fills in the quota per slot with at most share workers, and reports
// whether the work is done by the deadline.
func (f *flowPlan) fits(c *candidate, share int, left float64) bool {
	clear(f.quota)
	start := f.now
	for i, end := range f.ends {
		if start >= c.Deadline {
			return false
		}
		// What the job holds as its pinned minimum is its own.
		n := c.floor(min(share, (f.free[i]+c.cost(c.n))/c.per))
		f.quota[i] = n
		span := min(end, c.Deadline) - start
		if left -= c.speed(n) * span; left <= 0 {
			return true
		}
		start = end
	}
	return false
}
