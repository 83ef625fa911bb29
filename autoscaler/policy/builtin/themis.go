// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// themis leases GPUs, in rounds, to the jobs that are treated worst: those with the
// highest ratio of finish time here to finish time on a private cluster of their
// fair share.
//
// It is the round-based form that later systems (Gavel, ElasticFlow) compare with,
// not the auction with hidden payments.
type themis struct {
	Lease float64 `hcl:"lease,optional" doc:"seconds for which a job keeps its GPUs"`
}

// Check implements registry.Checker.
func (t themis) Check() (string, string) {
	if !(t.Lease > 0) {
		return "lease", "must be positive"
	}
	return "", ""
}

var themisEntry = registry.Define(registry.Info{
	Name:   "themis",
	Doc:    "Finish-time fairness: at the end of each lease, GPUs go to the jobs that would end latest, compared with their end on a fair share of the cluster.",
	Source: "Themis (NSDI'20), round form of Gavel (OSDI'20) and ElasticFlow (ASPLOS'23)",
	Needs:  "remaining work and speed-up curves; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
	Trusts: registry.Times,
}, themis{Lease: 1200}, themis.allocate)

// themisState is the start of the current lease.
type themisState struct {
	Since float64 `json:"since"`
}

func (t themis) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[themisState](s)
	over := len(s.State) == 0 || s.Now-state.Since >= t.Lease
	if over {
		state.Since = s.Now
	}
	for _, p := range pools {
		p.hold(!over)
		p.gang(p.byScore(func(c *candidate) float64 { return -fairness(s.Now, c, p.gpus, len(p.jobs)) }), false, "further behind its fair share than others")
		if p.waiting() {
			requeue(&d, s.Now, state.Since+t.Lease)
		}
	}
	settle(&d, pools)
	save(&d, state)
	return d
}

// fairness returns the finish time of a job that runs at its preferred size from
// now on, relative to its finish time on a private share of the pool. 1 is fair,
// more is worse.
func fairness(now float64, c *candidate, gpus, jobs int) float64 {
	left := c.guess()
	done := c.Attained
	if c.Curve.Measured() && c.Done > 0 {
		done = c.Done * c.Curve.Time(1)
	}
	share := max(1, float64(gpus)/float64(max(jobs, 1)))
	ideal := c.speed(c.want)
	if n := c.floor(int(share) / c.per); n > 0 {
		ideal = c.speed(min(n, c.want))
	} else if part := share / float64(c.cost(c.low)); part < 1 {
		// A share too small for the minimum runs the job part of the time.
		ideal = c.speed(c.low) * part
	}
	return (now - c.Submit + left/c.speed(c.want)) / ((done + left) / ideal)
}
