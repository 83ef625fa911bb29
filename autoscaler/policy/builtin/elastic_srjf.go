// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

var elasticSRJFEntry = registry.Define(registry.Info{
	Name:   "elastic-srjf",
	Doc:    "Each job gets its minimum size in order of remaining work, the least first; then each gets one more worker in turn until the GPUs are used.",
	Source: "Voda (IC2E 2023)",
	Needs:  "remaining work; a job of unknown length counts as having its attained service plus 600 GPU-seconds left",
	Trusts: registry.Lengths,
}, elastic{Efficiency: -1}, elastic.srjf)

// srjf decides like elastic FIFO, with the jobs of least remaining work first.
func (e elastic) srjf(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		order := p.byScore((*candidate).guess)
		p.pin()
		p.minima(order, "among the least remaining work")
		p.grow(order, e.Efficiency, "shares free GPUs in equal steps")
	}
	settle(&d, pools)
	return d
}
