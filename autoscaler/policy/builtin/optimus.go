// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// optimus gives every job its minimum, least demanding jobs first, and each further
// GPU to the job whose own completion time it cuts most. That favours long jobs.
// Optimus' published gains rely on its fit of the loss curve; a declared length
// replaces that fit here.
type optimus struct{}

var optimusEntry = registry.Define(registry.Info{
	Name:   "optimus",
	Doc:    "Each job gets its minimum size, the least demanding job first; then each GPU goes to the job whose completion time it reduces most.",
	Source: "Optimus (EuroSys'18), with declared length in place of the fitted loss curve",
	Needs:  "remaining work and speed-up curves; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
	Trusts: registry.Times,
}, optimus{}, optimus.allocate)

func (optimus) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		p.pin()
		order := p.byScore(func(c *candidate) float64 { return float64(c.cost(c.low)) })
		p.minima(order, "its minimum, the least demanding jobs first")
		p.auction(order, 0, func(c *candidate) (int, float64) {
			to := c.next(c.n)
			if c.n == 0 || to == 0 {
				return 0, 0
			}
			saved := c.guess() * (1/c.speed(c.n) - 1/c.speed(to))
			return to, saved / float64(c.cost(to)-c.cost(c.n))
		}, "ends sooner by more than any other job would")
	}
	settle(&d, pools)
	return d
}
