// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// roundRobin shares GPUs in time: after each quantum the jobs that ran go to
// the tail of the queue, if others wait.
type roundRobin struct{ sliceOptions }

type sliceOptions struct {
	Quantum float64 `hcl:"quantum,optional" doc:"length of a time slice in seconds"`
}

// Check implements registry.Checker.
func (o sliceOptions) Check() (string, string) {
	if !(o.Quantum > 0) {
		return "quantum", "must be positive"
	}
	return "", ""
}

var roundRobinEntry = registry.Define(registry.Info{
	Name:   "round-robin",
	Doc:    "Gang time slicing: every quantum the running jobs are suspended and go to the tail of the queue, if others wait.",
	Source: "Schedulearn (NTHU 2023); the time slicing of Gandiva (OSDI'18)",
	Needs:  "nothing",
}, sliceOptions{Quantum: 600}, func(o sliceOptions) policy.Policy { return &roundRobin{o} })

// Name implements Policy.
func (*roundRobin) Name() string { return "round-robin" }

// Allocate implements Policy.
func (r *roundRobin) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	pools := split(s, &d)
	state := load[rotation](s)
	state.slice(s, &d, pools, r.Quantum)
	settle(&d, pools)
	save(&d, state)
	return d
}
