// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// srjf runs the jobs that will finish soonest at their preferred size, and suspends
// others for them.
type srjf struct{}

var srjfEntry = registry.Define(registry.Info{
	Name:   "srjf",
	Doc:    "Jobs with the least remaining work run first, at their preferred size (all or nothing); longer jobs are suspended for shorter jobs.",
	Source: "textbook SRTF on gangs of GPUs, as the baseline of AFS (NSDI'21) and Helios (SC'21)",
	Needs:  "remaining work and step times; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
	Trusts: registry.Lengths,
}, srjf{}, srjf.allocate)

func (srjf) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		p.hold(false)
		p.gang(p.byScore(func(c *candidate) float64 {
			if _, ok := c.left(); ok {
				return c.Remaining * c.Curve.Time(c.want)
			}
			return c.guess() / c.speed(c.want)
		}), false, "among the shortest remaining")
	}
	settle(&d, pools)
	return d
}
