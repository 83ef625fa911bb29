// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

var gandivaEntry = registry.Define(registry.Info{
	Name:   "gandiva",
	Doc:    "Time slicing at preferred sizes; when no job waits, running jobs grow into idle GPUs, and shrink back when other jobs arrive.",
	Source: "Gandiva (OSDI'18) without packing and migration",
	Needs:  "step times, to stop growth that brings nothing; unmeasured sizes use the prior",
}, timeSlicing{Quantum: 600}, timeSlicing.gandiva)

// gandiva adds growing and shrinking to time slicing: idle GPUs go to running jobs
// while no job waits. Counts cannot express Gandiva's packing of two jobs on one
// GPU, and migration is left to the planner.
func (t timeSlicing) gandiva(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[rotation](s)
	state.slice(s, &d, pools, t.Quantum)
	for _, p := range pools {
		if !p.waiting() {
			p.grow(p.jobs, leastGain, "grows into idle GPUs until others wait")
		}
	}
	settle(&d, pools)
	save(&d, state)
	return d
}
