// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// elastic gives each job its minimum in order of arrival, then lets all of them
// grow by one step in turn. With an efficiency floor, a job stops growing where one
// more GPU would add less speed-up than the floor.
//
// Elastic SRJF differs only in the order of jobs and has the same options.
type elastic struct {
	Efficiency float64 `hcl:"efficiency,optional" doc:"least speed-up that one more GPU must bring (such as 0.25); a negative value ignores the curve"`
}

// Check implements registry.Checker.
func (e elastic) Check() (string, string) {
	if e.Efficiency > 1 {
		return "efficiency", "must be at most 1: no GPU is expected to bring more than itself"
	}
	return "", ""
}

var elasticFIFOEntry = registry.Define(registry.Info{
	Name:   "elastic-fifo",
	Doc:    "Each job gets its minimum size in order of arrival, then each gets one more worker in turn until the GPUs are used.",
	Source: "Schedulearn (NTHU 2023) and Voda (IC2E 2023); the efficiency floor is Kolo's",
	Needs:  "nothing or, with an efficiency floor, the speed-up curve; unmeasured sizes use the prior",
}, elastic{Efficiency: -1}, elastic.fifo)

func (e elastic) fifo(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	for _, p := range pools {
		order := p.byPriority(nil)
		p.pin()
		p.minima(order, "its turn in order of arrival")
		p.grow(order, e.Efficiency, "shares free GPUs in equal steps")
	}
	settle(&d, pools)
	return d
}
