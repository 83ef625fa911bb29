// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command kolo-policy-even is an example of an external policy in Go. Every job
// gets its minimum in order of arrival; the remaining GPUs go to the smallest job,
// one size at a time.
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
	free := room{}
	for _, n := range s.Nodes {
		free[anyType] += n.GPUs
		if n.Type != anyType {
			free[n.Type] += n.GPUs
		}
	}
	counts := make([]int, len(s.Jobs))
	// Running jobs come first: most of them may not go back to no workers.
	for _, running := range []bool{true, false} {
		for i := range s.Jobs {
			j := &s.Jobs[i]
			if need := j.Min * max(1, j.PerWorker); (j.Count > 0) == running && need <= free.of(j) {
				counts[i] = j.Min // an allowed size, like Max
				free.take(j, need)
			}
		}
	}
	for {
		least := -1
		for i := range s.Jobs {
			if counts[i] == 0 || counts[i] >= s.Jobs[i].Max || step(&s.Jobs[i], counts[i]) > free.of(&s.Jobs[i]) {
				continue
			}
			if least < 0 || counts[i] < counts[least] {
				least = i
			}
		}
		if least < 0 {
			break
		}
		j := &s.Jobs[least]
		free.take(j, step(j, counts[least]))
		counts[least] = j.Sizes.Above(counts[least])
	}
	var d policy.Decision
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{
			Job: s.Jobs[i].ID, Count: counts[i], Reason: fmt.Sprintf("an even share of %d", counts[i]),
		})
	}
	return d
}

// room holds the number of free GPUs by type, and in total under anyType.
type room map[string]int

// anyType is the type of a job that runs on any GPU.
const anyType = ""

func (r room) of(j *policy.Job) int { return min(r[anyType], r[j.Type]) }

func (r room) take(j *policy.Job, n int) {
	r[anyType] -= n
	if j.Type != anyType {
		r[j.Type] -= n
	}
}

// step returns how many more GPUs a job needs for its next larger size.
func step(j *policy.Job, count int) int {
	return (j.Sizes.Above(count) - count) * max(1, j.PerWorker)
}
