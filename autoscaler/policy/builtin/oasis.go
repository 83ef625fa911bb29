// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// oasis admits jobs by price. GPUs of a future time slot cost more the fuller the slot
// is. A job buys the schedule (workers per slot) with the highest utility minus cost, and
// is admitted if that is positive.
//
// The paper finds the cheapest schedule by dynamic programming over slots. This policy
// takes the cheapest work first, which for concave curves is the same up to one step. The
// paper turns a job away for good; here it is offered prices again later, and runs at its
// minimum on GPUs that no job bought. If searching takes too long for all jobs, the rest
// are offered prices first in the next decision.
type oasis struct {
	Slot  float64 `hcl:"slot,optional" doc:"length of a time slot in seconds"`
	Slots int     `hcl:"slots,optional" doc:"how many slots ahead a job may buy, at most 64"`
	Low   float64 `hcl:"low,optional" doc:"price of a GPU-second in an empty slot; a GPU-second of perfectly scaling work is worth the job's weight"`
	High  float64 `hcl:"high,optional" doc:"price of a GPU-second in a full slot"`
}

// Check implements registry.Checker.
func (o oasis) Check() (string, string) {
	switch {
	case !(o.Slot > 0):
		return "slot", "must be positive"
	case o.Slots < 1 || o.Slots > 64:
		return "slots", "must be between 1 and 64"
	case !(o.Low > 0):
		return "low", "must be positive"
	case !(o.High > o.Low):
		return "high", "must be above low"
	}
	return "", ""
}

var oasisEntry = registry.Define(registry.Info{
	Name:   "oasis",
	Doc:    "Online primal-dual admission: jobs buy GPUs of future time slots at prices that rise with use, and run as bought.",
	Source: "OASiS (INFOCOM'18, arXiv 1801.00936), in outline",
	Needs:  "remaining work, speed-up curves, weight and deadline as the utility; without a deadline utility falls from the ideal finish on, a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
	Trusts: registry.Times,
}, oasis{Slot: 600, Slots: 32, Low: 0.1, High: 10}, oasis.allocate)

// oasisState holds the bought schedules.
type oasisState struct {
	Plans map[string]oasisPlan `json:"plans"`
	// Next lists the jobs to which the next decision offers prices first, at most one per
	// GPU type.
	Next []string `json:"next,omitempty"`
}

// oasisPlan is a job's workers in slot First and those after it.
type oasisPlan struct {
	First   int   `json:"first"`
	Workers []int `json:"workers"`
}

// at returns the number of workers in a slot.
func (p oasisPlan) at(slot int) int {
	if i := slot - p.First; i >= 0 && i < len(p.Workers) {
		return p.Workers[i]
	}
	return 0
}

func (p oasisPlan) end() int { return p.First + len(p.Workers) }

func (o oasis) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	old, state := load[oasisState](s), oasisState{Plans: map[string]oasisPlan{}}
	now := int(math.Floor(s.Now / o.Slot))
	for _, p := range pools {
		p.pin()
		m := newMarket(o, p, s.Now, now)
		for _, c := range p.jobs {
			if plan, ok := old.Plans[c.ID]; ok && plan.end() > now && m.reserve(c, plan) {
				state.Plans[c.ID] = plan
			}
		}
		offers := mostOffers / len(pools)
		first := max(0, slices.IndexFunc(p.jobs, func(c *candidate) bool { return slices.Contains(old.Next, c.ID) }))
		for _, c := range slices.Concat(p.jobs[first:], p.jobs[:first]) {
			if _, ok := state.Plans[c.ID]; ok {
				continue
			}
			if offers <= 0 {
				state.Next = append(state.Next, c.ID)
				break
			}
			m.offers = 0
			if plan, ok := m.buy(c); ok && m.reserve(c, plan) {
				state.Plans[c.ID] = plan
			}
			offers -= m.offers
		}
		for _, c := range p.jobs {
			if plan, ok := state.Plans[c.ID]; ok {
				c.why = "as bought: worth more to it than the price"
				if n := plan.at(now); n > c.n && !p.set(c, n) {
					p.set(c, c.floor(min(n, c.n+p.free/c.per)))
				}
			}
		}
		p.minima(p.byPriority(nil), "runs on GPUs that no job bought")
	}
	if len(s.Jobs) > 0 {
		requeue(&d, s.Now, float64(now+1)*o.Slot)
	}
	settle(&d, pools)
	save(&d, state)
	return d
}

// mostOffers bounds the purchases considered in one decision, which keeps it below a
// second. The job that crosses the bound still considers all of its own.
const mostOffers = 5_000_000

// mostSteps bounds the sizes considered for a job, up to a factor of two: a job with more
// sizes grows by larger steps.
const mostSteps = 256

// market holds the GPUs bought in each slot, from the current one on.
type market struct {
	oasis
	pool  *pool
	now   float64
	first int // slot of index 0
	used  []int
	price []float64 // per GPU-second
	floor float64   // lowest price
	step  bids      // scratch: next purchase per slot
	buys  []int     // scratch: workers per slot

	offers int // considered so far
}

func newMarket(o oasis, p *pool, now float64, first int) *market {
	m := &market{
		oasis: o, pool: p, now: now, first: first, floor: o.Low,
		used: make([]int, o.Slots), price: make([]float64, o.Slots), buys: make([]int, o.Slots),
	}
	// Pinned minima are held in every slot.
	for i := range m.used {
		m.used[i] = p.gpus - p.free
	}
	m.reprice()
	return m
}

func (m *market) reprice() {
	m.floor = math.Inf(1)
	for i, n := range m.used {
		m.price[i] = m.Low * math.Pow(m.High/m.Low, float64(n)/float64(max(m.pool.gpus, 1)))
		m.floor = min(m.floor, m.price[i])
	}
}

// span returns how many seconds of a slot are still to come.
func (m *market) span(i int) float64 {
	return min(m.Slot, float64(m.first+i+1)*m.Slot-m.now)
}

// reserve books a plan. It returns false if capacity or bounds no longer allow it.
func (m *market) reserve(c *candidate, plan oasisPlan) bool {
	for i := range m.used {
		n := plan.at(m.first + i)
		if n != 0 && c.floor(n) != n || m.used[i]+max(0, c.cost(n)-c.cost(c.n)) > m.pool.gpus {
			return false
		}
	}
	for i := range m.used {
		m.used[i] += max(0, c.cost(plan.at(m.first+i))-c.cost(c.n))
	}
	m.reprice()
	return true
}

// buy returns the schedule with the highest payoff among those that end within 1, 2, 4, …
// slots.
func (m *market) buy(c *candidate) (oasisPlan, bool) {
	left := c.guess()
	fast := c.speed(c.high)
	for n := c.low; n > 0 && n < c.high; n = 2 * n {
		fast = max(fast, c.speed(c.floor(n)))
	}
	top := m.top(c)
	best, most := oasisPlan{}, 0.0
	for slots := 1; ; slots *= 2 {
		slots = min(slots, len(m.used))
		could := 0.0
		for i := range slots {
			could += top * m.span(i)
		}
		worth := m.utility(c, left, left/fast, slots)
		// No schedule costs less than all work at the lowest price.
		if worth-left*m.floor*float64(c.per) > most && left <= could*(1+straight) {
			// As a schedule grows, its cost and end never fall, and a later end is never
			// worth more.
			payoff := func(cost float64, end int) float64 { return m.utility(c, left, left/fast, end) - cost }
			hopeless := func(cost float64, end int) bool { return !(payoff(cost, end) > most) }
			if cost, end, ok := m.cheapest(c, left, slots, hopeless); ok && !hopeless(cost, end) {
				most = payoff(cost, end)
				best = oasisPlan{First: m.first, Workers: slices.Clone(m.buys[:end])}
			}
		}
		if slots == len(m.used) {
			return best, most > 0
		}
	}
}

// top returns the job's speed-up at the size where growing brings no more.
func (m *market) top(c *candidate) float64 {
	top := 0.0
	for n := 0; ; {
		to := m.grown(c, n)
		if to == 0 || c.cost(to) > m.pool.gpus+c.cost(c.n) {
			return top
		}
		speed := c.speed(to)
		if !(speed-top > leastGain) {
			return top
		}
		n, top = to, speed
	}
}

// grown returns the size of a job after its next step, or 0 if there is none.
func (m *market) grown(c *candidate, n int) int {
	m.offers++
	to := c.next(n)
	if step := (min(c.high, m.pool.gpus/c.per) - c.low) / mostSteps; to > 0 && n > 0 && step > 1 {
		to = max(to, c.floor(n+step))
	}
	return to
}

// utility returns the value of ending after the given number of slots: work times weight
// until the deadline (or ideal finish), then falling as one over the delay.
func (m *market) utility(c *candidate, left, ideal float64, slots int) float64 {
	due := c.Deadline
	if due <= 0 {
		due = c.Submit + ideal
	}
	end := float64(m.first+slots) * m.Slot
	return c.weight() * left / (1 + max(0, end-due)/max(ideal, m.Slot))
}

// cheapest fills m.buys with workers that do the work within the given number of slots,
// cheapest work first. It returns the cost and the slots used, and gives up once hopeless
// reports true.
func (m *market) cheapest(c *candidate, left float64, slots int, hopeless func(cost float64, end int) bool) (cost float64, end int, ok bool) {
	clear(m.buys)
	m.step = m.step[:0]
	for i := range slots {
		if b, ok := m.offer(c, i); ok {
			m.step = append(m.step, b)
		}
	}
	m.step.init()
	for left > 0 && len(m.step) > 0 {
		b := m.step[0]
		i, span := b.rank, m.span(b.rank)
		gpus := c.cost(b.to) - c.cost(m.buys[i])
		left -= (c.speed(b.to) - c.speed(m.buys[i])) * span
		cost += m.price[i] * span * float64(gpus)
		m.buys[i] = b.to
		end = max(end, i+1)
		if hopeless(cost, end) {
			return cost, end, false
		}
		if next, ok := m.offer(c, i); ok {
			m.step[0] = next
			m.step.down(0)
		} else {
			m.step.pop()
		}
	}
	return cost, end, left <= 0
}

// offer returns the next purchase in a slot, valued by work per unit of price.
func (m *market) offer(c *candidate, i int) (bid, bool) {
	n := m.buys[i]
	to := m.grown(c, n)
	if to == 0 || m.used[i]+max(0, c.cost(to)-c.cost(c.n)) > m.pool.gpus {
		return bid{}, false
	}
	gain := c.speed(to) - c.speed(n)
	if !(gain > leastGain) {
		return bid{}, false
	}
	return bid{gain: gain / float64(c.cost(to)-c.cost(n)) / m.price[i], to: to, rank: i}, true
}
