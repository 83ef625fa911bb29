// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// weightedFair divides GPUs between tenants in proportion to their shares, and
// within a tenant between jobs in proportion to their weights. GPUs that a tenant
// does not use are lent to the others and taken back when it needs them.
type weightedFair struct {
	Shares map[string]float64 `hcl:"shares,optional" doc:"relative share of each tenant; tenants that are not listed have 1. The weight of a queue block does this under any policy"`
	Borrow bool               `hcl:"borrow,optional" doc:"lend unused GPUs to other tenants; false keeps each within its share of the cluster"`
}

// Check implements registry.Checker.
func (w weightedFair) Check() (string, string) {
	for _, tenant := range slices.Sorted(maps.Keys(w.Shares)) {
		if share := w.Shares[tenant]; !(share > 0) {
			return "shares", fmt.Sprintf("must be positive, %q has %v", tenant, share)
		}
	}
	return "", ""
}

var weightedFairEntry = registry.Define(registry.Info{
	Name:   "weighted-fair",
	Doc:    "Weighted max-min fairness between tenants with lending of unused GPUs, then between the jobs of each. Jobs grow while that makes them faster. GPUs that make no job faster stay where they are, unless they slow a job down by more than 5 %.",
	Source: "weighted max-min fairness (DRF, NSDI'11, with one resource); quotas with borrowing as in YARN and Kueue",
	Needs:  "tenant and weight; step times, to stop growth that brings nothing",
}, weightedFair{Borrow: true}, weightedFair.allocate)

func (w weightedFair) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		p.pin()
		tenants := w.tenants(p)
		serve(p, tenants, (*tenant).start)
		for _, act := range []func(*tenant, *pool) bool{(*tenant).grow, (*tenant).keep} {
			for _, t := range tenants {
				t.prepare()
			}
			serve(p, tenants, act)
		}
	}
	settle(&d, pools)
	return d
}

// tenant is one queue or namespace while GPUs are divided.
type tenant struct {
	share float64
	limit int // most GPUs it may hold
	used  int
	jobs  []*candidate // by priority, then arrival
	turn  int          // next job to start
	steps bids         // running jobs, the one with the least for its weight on top
}

// tenants groups the jobs of a pool, in order of their first job.
func (w weightedFair) tenants(p *pool) []*tenant {
	byName := map[string]*tenant{}
	var all []*tenant
	total := 0.0
	// Sorted, because a sum of floats depends on its order.
	for _, name := range slices.Sorted(maps.Keys(w.Shares)) {
		if !slices.ContainsFunc(p.jobs, func(c *candidate) bool { return c.Tenant == name }) {
			total += w.Shares[name] // its part of the cluster stays reserved without borrowing
		}
	}
	for _, c := range p.byPriority(nil) {
		t := byName[c.Tenant]
		if t == nil {
			t = &tenant{share: 1}
			if share, ok := w.Shares[c.Tenant]; ok {
				t.share = share
			}
			total += t.share
			byName[c.Tenant] = t
			all = append(all, t)
		}
		t.jobs = append(t.jobs, c)
		t.used += c.cost(c.n)
	}
	for _, t := range all {
		t.limit = p.gpus
		if !w.Borrow {
			t.limit = int(float64(p.gpus) * t.share / total)
		}
	}
	return all
}

// serve repeatedly lets the tenant that holds least for its share act, until none
// can.
func serve(p *pool, tenants []*tenant, act func(*tenant, *pool) bool) {
	h := make(bids, len(tenants))
	for i, t := range tenants {
		h[i] = bid{gain: -float64(t.used) / t.share, rank: i}
	}
	h.init()
	for len(h) > 0 && p.free > 0 {
		t := tenants[h[0].rank]
		if !act(t, p) {
			h.pop()
			continue
		}
		h[0].gain = -float64(t.used) / t.share
		h.down(0)
	}
}

// take gives n workers to one of the tenant's jobs if pool and limit allow.
func (t *tenant) take(p *pool, c *candidate, n int) bool {
	need := c.cost(n) - c.cost(c.n)
	if t.used+need > t.limit || !p.set(c, n) {
		return false
	}
	t.used += need
	return true
}

// start gives the tenant's next waiting job its minimum. Jobs that do not
// fit are passed over.
func (t *tenant) start(p *pool) bool {
	for t.turn < len(t.jobs) {
		c := t.jobs[t.turn]
		t.turn++
		if c.n == 0 && t.take(p, c, c.low) {
			c.why = "within its tenant's fair share"
			return true
		}
		switch {
		case c.n > 0 || t.limit == p.gpus:
		case c.cost(c.low) > t.limit:
			c.why, c.wait = "waits: its minimum is more than its tenant's whole share", waiting.OverLimit
		case t.used+c.cost(c.low) > t.limit:
			c.why, c.wait = fmt.Sprintf("waits: its tenant has %d of its share of %d GPUs, and borrows none", t.used, t.limit), waiting.OverLimit
		}
	}
	return false
}

// prepare queues the tenant's running jobs for growth steps.
func (t *tenant) prepare() {
	t.steps = t.steps[:0]
	for i, c := range t.jobs {
		if c.n > 0 {
			t.steps = append(t.steps, bid{gain: -c.perWeight(), rank: i})
		}
	}
	t.steps.init()
}

// grow gives one step to the job that holds least for its weight. It stops at a dip
// of the curve: crossing dips made the average JCT of the Pollux workloads 22 %
// longer.
func (t *tenant) grow(p *pool) bool {
	return t.step(p, "within its tenant's fair share", func(c *candidate) int {
		if to := c.next(c.n); to > 0 && c.rate(to) > leastGain {
			return to
		}
		return 0
	})
}

// keepLoss is how much slower than a smaller size a job's current size may be and
// still be kept. Measured times are never exact.
const keepLoss = 0.05

// keep leaves GPUs that no job gains from where they are, if they hardly slow that
// job down. Moving them would be a resize for nothing.
func (t *tenant) keep(p *pool) bool {
	return t.step(p, "keeps its size: no job would be faster with its GPUs", func(c *candidate) int {
		if now := c.floor(c.Count); c.n < now && c.speed(now) >= (1-keepLoss)*c.speed(c.n) {
			return now
		}
		return 0
	})
}

// step offers each job a size and gives it to the job that holds least for its
// weight among those that accept.
func (t *tenant) step(p *pool, why string, offer func(*candidate) int) bool {
	for len(t.steps) > 0 {
		c := t.jobs[t.steps[0].rank]
		to := offer(c)
		if to == 0 || !t.take(p, c, to) {
			t.steps.pop()
			continue
		}
		c.why = why
		t.steps[0].gain = -c.perWeight()
		t.steps.down(0)
		return true
	}
	return false
}

func (c *candidate) perWeight() float64 { return float64(c.cost(c.n)) / c.weight() }
