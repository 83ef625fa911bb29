// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

// roundRobin shares GPUs in time: after each quantum the jobs that ran go to
// the tail of the queue, if others wait.
type roundRobin struct{ sliceOptions }

type sliceOptions struct {
	Quantum float64 `hcl:"quantum,optional" doc:"length of a time slice in seconds"`
}

func (o sliceOptions) check() (string, string) {
	if !(o.Quantum > 0) {
		return "quantum", "must be positive"
	}
	return "", ""
}

var roundRobinEntry = define(Info{
	Name:   "round-robin",
	Doc:    "Gang time slicing: every quantum the running jobs are suspended and go to the tail of the queue, if others wait.",
	Source: "Schedulearn (NTHU 2023); the time slicing of Gandiva (OSDI'18)",
	Needs:  "nothing",
}, sliceOptions{Quantum: 600}, func(o sliceOptions) Policy { return &roundRobin{o} })

// Name implements Policy.
func (*roundRobin) Name() string { return "round-robin" }

// Allocate implements Policy.
func (r *roundRobin) Allocate(s *Snapshot) Decision {
	var d Decision
	pools := split(s, &d)
	state := load[rotation](s)
	state.slice(s, &d, pools, r.Quantum)
	settle(&d, pools)
	save(&d, state)
	return d
}
