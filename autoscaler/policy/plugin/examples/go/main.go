// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command kolo-policy-even is an example of a policy of one's own in Go: every
// job gets its minimum in order of arrival, and what is left is dealt out one
// worker at a time to the smallest job.
//
//	go build -o /etc/kolo/policies/kolo-policy-even .
//	kolo policy set even
package main

import (
	"fmt"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin"
)

func main() { plugin.Serve(even{}) }

type even struct{}

// Name implements policy.Policy.
func (even) Name() string { return "even" }

// Allocate implements policy.Policy.
func (even) Allocate(s *policy.Snapshot) policy.Decision {
	free := 0
	for _, n := range s.Nodes {
		free += n.GPUs
	}
	counts := make([]int, len(s.Jobs))
	// Those that run come first: most may not go back to no workers.
	for _, running := range []bool{true, false} {
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if need := j.Min * max(1, j.PerWorker); (j.Count > 0) == running && need <= free {
				counts[i] = j.Min
				free -= need
			}
		}
	}
	for {
		least := -1
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if counts[i] == 0 || counts[i] >= j.Max || max(1, j.PerWorker) > free {
				continue
			}
			if least < 0 || counts[i] < counts[least] {
				least = i
			}
		}
		if least < 0 {
			break
		}
		counts[least]++
		free -= max(1, s.Jobs[least].PerWorker)
	}
	var d policy.Decision
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{
			Job: s.Jobs[i].ID, Count: counts[i], Reason: fmt.Sprintf("an even share of %d", counts[i]),
		})
	}
	return d
}
