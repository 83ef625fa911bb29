// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// optimus gives every job its minimum, the least demanding first, and each
// further GPU to the job whose own completion time it cuts most. That favours
// long jobs; Optimus' published gains come with its fit of the loss curve,
// which a declared length stands in for here.
type optimus struct{}

var optimusEntry = registry.Define(registry.Info{
	Name:   "optimus",
	Doc:    "Minimum size for each job, least demanding first, then each GPU to the job whose completion time it cuts most.",
	Source: "Optimus (EuroSys'18), with declared length in place of the fitted loss curve",
	Needs:  "remaining work and speed-up curves; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
}, struct{}{}, func(struct{}) policy.Policy { return optimus{} })

// Name implements Policy.
func (optimus) Name() string { return "optimus" }

// Allocate implements Policy.
func (optimus) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	pools := split(s, &d)
	for _, p := range pools {
		p.pin()
		order := p.byPriority(func(a, b *candidate) int {
			return cmp.Compare(a.cost(a.low), b.cost(b.low))
		})
		p.minima(order, "its minimum, the least demanding jobs first")
		left := make([]float64, len(s.Jobs))
		for _, c := range p.jobs {
			left[c.place] = c.guess()
		}
		p.auction(order, 0, func(c *candidate) (int, float64) {
			if c.n == 0 {
				return 0, 0
			}
			to := c.next(c.n)
			if to == 0 {
				return 0, 0
			}
			saved := left[c.place] * (1/c.speed(c.n) - 1/c.speed(to))
			return to, saved / float64(c.cost(to)-c.cost(c.n))
		}, "ends sooner by more than any other job would")
	}
	settle(&d, pools)
	return d
}
