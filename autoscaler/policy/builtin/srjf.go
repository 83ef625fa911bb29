// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// srjf runs the jobs that will be done soonest at their preferred size,
// suspending others for them.
type srjf struct{}

var srjfEntry = registry.Define(registry.Info{
	Name:   "srjf",
	Doc:    "Shortest remaining job first at the preferred size (all or nothing); longer jobs are suspended for shorter ones.",
	Source: "textbook SRTF on gangs of GPUs, as the baseline of AFS (NSDI'21) and Helios (SC'21)",
	Needs:  "remaining work and step times; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
}, struct{}{}, func(struct{}) policy.Policy { return srjf{} })

// Name implements Policy.
func (srjf) Name() string { return "srjf" }

// Allocate implements Policy.
func (srjf) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	pools := split(s, &d)
	for _, p := range pools {
		p.hold(false)
		// The time to the end at the preferred size, once per job.
		span := make([]float64, len(s.Jobs))
		for _, c := range p.jobs {
			if _, ok := c.left(); ok {
				span[c.place] = c.Remaining * c.Curve.Time(c.want)
			} else {
				span[c.place] = c.guess() / c.speed(c.want)
			}
		}
		p.gang(p.byPriority(func(a, b *candidate) int {
			return cmp.Compare(span[a.place], span[b.place])
		}), false, "among the shortest remaining")
	}
	settle(&d, pools)
	return d
}
