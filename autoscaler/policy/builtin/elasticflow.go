// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// elasticFlow guarantees deadlines: it admits a job with a deadline if some share
// of the GPUs meets it without breaking the guarantees of admitted jobs, and the
// job holds at least the smallest such share. The remaining GPUs serve all jobs.
//
// It departs from the paper in three ways:
//
//   - New jobs are fitted around admitted ones in order of deadline; the paper
//     re-checks all jobs for each new one.
//   - An admitted job keeps its reservation as long as that meets its deadline.
//     Planning it again could break a guarantee given to another job.
//   - Jobs without a guarantee get their minimum before admitted jobs grow beyond
//     their need. Otherwise they could starve.
type elasticFlow struct {
	PowersOfTwo bool `hcl:"powers_of_two,optional" doc:"consider only powers of two as shares, as in the paper"`
}

var elasticFlowEntry = registry.Define(registry.Info{
	Name:   "elasticflow",
	Doc:    "Admits a job if its deadline can be met, and reserves the smallest share that meets it; other jobs run as best effort.",
	Source: "ElasticFlow (ASPLOS'23)",
	Needs:  "deadlines, remaining work and speed-up curves; jobs without a deadline are best effort, a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
	Trusts: registry.Lengths,
}, elasticFlow{PowersOfTwo: true}, elasticFlow.allocate)

// elasticFlowState lists the jobs that hold a guarantee.
type elasticFlowState struct {
	Admitted []promise `json:"admitted"`
}

// promise is the reservation of an admitted job: consecutive pieces of its plan.
type promise struct {
	Job  string  `json:"job"`
	Plan []piece `json:"plan"`
}

// piece is a number of workers that is reserved until a time.
type piece struct {
	Until   float64 `json:"until"`
	Workers int     `json:"workers"`
}

// flowSlots bounds the time slots of a plan. With more reservations than that,
// some hold their GPUs for longer than they need them.
const flowSlots = 64

// flowSlack is how many seconds of work may be left at a deadline: a job that
// has just enough time must not lose its guarantee to rounding.
const flowSlack = 1e-6

func (e elasticFlow) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	was := make(map[string][]piece)
	for _, p := range load[elasticFlowState](s).Admitted {
		was[p.Job] = p.Plan
	}
	var state elasticFlowState
	for _, p := range pools {
		p.pin()
		order := e.byDeadline(p, s.Now, was)
		plan := newFlowPlan(p, s.Now, order)
		var guaranteed []*candidate
		for _, c := range order {
			if reserved := plan.admit(c, was[c.ID], e.PowersOfTwo); reserved != nil {
				n := reserved[0].Workers
				state.Admitted = append(state.Admitted, promise{c.ID, reserved})
				guaranteed = append(guaranteed, c)
				if n > c.n {
					p.set(c, n)
				}
				c.why = "the smallest share that meets its deadline"
			}
		}
		if len(plan.ends) > 0 {
			requeue(&d, s.Now, plan.ends[0])
		}
		p.minima(guaranteed, "ahead of what its deadline needs")
		p.minima(p.byPriority(nil), "best effort")
		p.auction(guaranteed, math.Inf(-1), thriftiest, "uses free GPUs with least waste")
		p.auction(p.byPriority(nil), math.Inf(-1), thriftiest, "uses free GPUs with least waste")
	}
	settle(&d, pools)
	save(&d, state)
	return d
}

// thriftiest values a running job's next step by the GPU-seconds that it saves
// until the job's end, per GPU added. The value is negative if the step costs
// GPU-seconds.
func thriftiest(c *candidate) (int, float64) {
	to := c.next(c.n)
	if c.n == 0 || to == 0 || c.speed(to) <= c.speed(c.n) {
		return 0, 0
	}
	now, then := float64(c.cost(c.n)), float64(c.cost(to))
	return to, c.guess() * (now/c.speed(c.n) - then/c.speed(to)) / (then - now)
}

// byDeadline lists the jobs whose deadline is still ahead: admitted jobs first,
// then new ones, each group by deadline.
func (e elasticFlow) byDeadline(p *pool, now float64, was map[string][]piece) []*candidate {
	var order []*candidate
	for _, c := range p.jobs {
		if c.Deadline > now {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b *candidate) int {
		switch i, k := was[a.ID] != nil, was[b.ID] != nil; {
		case i && !k:
			return -1
		case k && !i:
			return 1
		case a.Priority != b.Priority:
			return b.Priority - a.Priority
		}
		return cmp.Compare(a.Deadline, b.Deadline)
	})
	return order
}

// flowPlan holds the number of free GPUs in each time slot. A slot ends where a
// reservation changes.
type flowPlan struct {
	now   float64
	ends  []float64 // end of each slot, ascending
	free  []int
	quota []int   // of the job being fitted
	done  float64 // when it will be done
}

func newFlowPlan(p *pool, now float64, order []*candidate) *flowPlan {
	plan := &flowPlan{now: now}
	if len(order) == 0 {
		return plan
	}
	last := now
	for _, c := range order {
		last = max(last, c.Deadline)
	}
	// Jobs that must not be suspended hold their minimum throughout.
	plan.ends, plan.free, plan.quota = []float64{last}, []int{p.free}, []int{0}
	return plan
}

// admit reserves workers that finish the job by its deadline: its previous
// reservation if that still suffices, else the smallest share that does. It returns
// nil if no share does.
func (f *flowPlan) admit(c *candidate, before []piece, powers bool) []piece {
	left, fastest := c.guess(), 0.0
	for _, p := range before {
		f.split(p.Until)
	}
	if before != nil && f.fits(c, left, func(slot int) int { return f.kept(c, before, slot) }) {
		return f.reserve(c)
	}
	// A share beyond the room of every slot makes the same plan as a smaller one.
	enough := 0
	for slot := range f.ends {
		enough = max(enough, f.room(c, slot)/c.per)
	}
	for share := c.low; share > 0; share = nextShare(c, share, powers) {
		if speed := c.speed(share); speed > fastest {
			fastest = speed
			if f.fits(c, left, func(slot int) int { return c.floor(min(share, f.room(c, slot)/c.per)) }) {
				return f.reserve(c)
			}
		}
		if share >= enough {
			break
		}
	}
	return nil
}

// room returns how many GPUs the job may hold in a slot, including its pinned
// minimum.
func (f *flowPlan) room(c *candidate, slot int) int { return f.free[slot] + c.cost(c.n) }

// kept returns the number of workers that the job had reserved in a slot, or 0 if
// they no longer fit.
func (f *flowPlan) kept(c *candidate, before []piece, slot int) int {
	i := slices.IndexFunc(before, func(p piece) bool { return p.Until >= f.ends[slot] })
	if i < 0 || c.floor(before[i].Workers) != before[i].Workers || c.cost(before[i].Workers) > f.room(c, slot) {
		return 0
	}
	return before[i].Workers
}

// split makes a slot end at a time, unless there are too many slots already.
func (f *flowPlan) split(at float64) {
	i, found := slices.BinarySearch(f.ends, at)
	if found || at <= f.now || i == len(f.ends) || len(f.ends) >= flowSlots {
		return
	}
	f.ends = slices.Insert(f.ends, i, at)
	f.free = slices.Insert(f.free, i, f.free[i])
	f.quota = slices.Insert(f.quota, i, f.quota[i])
}

// reserve takes the workers of f.quota, which fits filled in for the job, until the
// job is done.
func (f *flowPlan) reserve(c *candidate) []piece {
	f.split(f.done)
	var plan []piece
	for i, end := range f.ends {
		n := f.quota[i]
		f.free[i] -= max(0, c.cost(n)-c.cost(c.n))
		if last := len(plan) - 1; last >= 0 && plan[last].Workers == n {
			plan[last].Until = end
		} else {
			plan = append(plan, piece{Until: end, Workers: n})
		}
		if end >= f.done {
			break
		}
	}
	return plan
}

// nextShare returns the next larger share to try, or 0 after the last.
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

// fits fills in f.quota with the job's workers in each slot and reports whether the
// job then finishes by its deadline.
func (f *flowPlan) fits(c *candidate, left float64, workers func(slot int) int) bool {
	clear(f.quota)
	start := f.now
	for i, end := range f.ends {
		if start >= c.Deadline {
			return false
		}
		f.quota[i] = workers(i)
		end = min(end, c.Deadline)
		speed := c.speed(f.quota[i])
		if left <= speed*(end-start)+flowSlack {
			f.done = end
			if speed > 0 {
				f.done = min(end, start+left/speed)
			}
			return true
		}
		left -= speed * (end - start)
		start = end
	}
	return false
}
