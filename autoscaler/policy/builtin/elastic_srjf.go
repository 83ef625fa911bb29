// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"cmp"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// elasticSRJF is elastic FIFO with the jobs of least remaining work first.
type elasticSRJF struct{ elasticOptions }

var elasticSRJFEntry = registry.Define(registry.Info{
	Name:   "elastic-srjf",
	Doc:    "Minimum size for each job by ascending remaining work, then one more worker for each in turn until the GPUs are used.",
	Source: "Voda (IC2E 2023)",
	Needs:  "remaining work; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
}, elasticOptions{Efficiency: -1}, func(o elasticOptions) policy.Policy { return &elasticSRJF{o} })

// Name implements Policy.
func (*elasticSRJF) Name() string { return "elastic-srjf" }

// Allocate implements Policy.
func (e *elasticSRJF) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	pools := split(s, &d)
	for _, p := range pools {
		left := make([]float64, len(s.Jobs))
		for _, c := range p.jobs {
			left[c.place] = c.guess()
		}
		order := p.byPriority(func(a, b *candidate) int {
			return cmp.Compare(left[a.place], left[b.place])
		})
		p.pin()
		p.minima(order, "among the least remaining work")
		p.grow(order, e.Efficiency, "shares free GPUs in equal steps")
	}
	settle(&d, pools)
	return d
}
