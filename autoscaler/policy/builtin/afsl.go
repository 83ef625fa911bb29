// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// afsl hands out GPUs one at a time. Each goes to the winner of a knock-out among
// all jobs. In a match of two jobs the shorter one wins, unless the longer one
// would use the GPU so much better that the two jobs end sooner on average.
type afsl struct {
	Blind      bool    `hcl:"blind,optional" doc:"ignore declared lengths: a job's remaining work is taken to be its attained service plus the option prior"`
	Prior      float64 `hcl:"prior,optional" doc:"GPU-seconds added to the attained service of a job of unknown length"`
	RestartCap int     `hcl:"restart_cap,optional" doc:"a job that was resized this often keeps its size; 0 is no limit"`
	Always     bool    `hcl:"always,optional" doc:"plan again at every decision, not only when jobs, bounds, capacity or curves changed"`
}

// Check implements registry.Checker.
func (a afsl) Check() (string, string) {
	switch {
	case !(a.Prior > 0):
		return "prior", "must be positive"
	case a.RestartCap < 0:
		return "restart_cap", "must not be negative"
	}
	return "", ""
}

var afslEntry = registry.Define(registry.Info{
	Name:   "afs-l",
	Doc:    "Jobs are compared in pairs by length and efficiency, and each GPU goes to the job that wins all its comparisons; plans again only on events.",
	Source: "AFS-L of CoDDL (NSDI'21); the blind form is Kolo's",
	Needs:  "speed-up curves and remaining work; a job of unknown length is taken to have its attained service plus `prior` of work left",
	Trusts: registry.Times,
}, afsl{Prior: servicePrior}, afsl.allocate)

func (a afsl) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[standing](s)
	if !s.Changed && !a.Always && state.keep(&d, pools) {
		save(&d, state)
		return d
	}
	for _, p := range pools {
		p.pin()
		var jobs []*candidate
		for _, c := range p.byPriority(nil) {
			if a.capped(c) && p.set(c, c.floor(c.Count)) {
				c.why = "keeps its size: resized as often as the cap allows"
				continue
			}
			jobs = append(jobs, c)
		}
		for _, tier := range tiers(jobs) {
			left := make([]float64, len(tier))
			for i, c := range tier {
				left[i] = a.left(c)
			}
			newTournament(tier, left).run(p)
		}
	}
	settle(&d, pools)
	state.remember(s, &d)
	save(&d, state)
	return d
}

func (a afsl) capped(c *candidate) bool {
	return a.RestartCap > 0 && c.Resizes >= a.RestartCap && c.floor(c.Count) > 0
}

func (a afsl) left(c *candidate) float64 {
	if left, ok := c.left(); ok && !a.Blind {
		return left
	}
	if a.Blind {
		return c.Attained + a.Prior
	}
	return c.predict(a.Prior)
}
