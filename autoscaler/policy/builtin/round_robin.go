// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// timeSlicing shares GPUs in time: after each quantum the jobs that ran go to
// the tail of the queue, if others wait.
type timeSlicing struct {
	Quantum float64 `hcl:"quantum,optional" doc:"length of a time slice in seconds"`
}

// Check implements registry.Checker.
func (t timeSlicing) Check() (string, string) {
	if !(t.Quantum > 0) {
		return "quantum", "must be positive"
	}
	return "", ""
}

var roundRobinEntry = registry.Define(registry.Info{
	Name:   "round-robin",
	Doc:    "Gang time slicing: if jobs wait at the end of a quantum, the running jobs are suspended and go to the tail of the queue.",
	Source: "Schedulearn (NTHU 2023); the time slicing of Gandiva (OSDI'18)",
	Needs:  "nothing",
}, timeSlicing{Quantum: 600}, timeSlicing.roundRobin)

func (t timeSlicing) roundRobin(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	state := load[rotation](s)
	state.slice(s, &d, pools, t.Quantum)
	settle(&d, pools)
	save(&d, state)
	return d
}
