// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// TestEven_DecidesAsKoloWants has a job for each rule of sizes: the example's decisions
// must be valid.
func TestEven_DecidesAsKoloWants(t *testing.T) {
	for gpus := range 30 {
		s := &policy.Snapshot{Nodes: []policy.Node{{GPUs: gpus}}, Jobs: []policy.Job{
			{ID: "all", Min: 1, Max: 8},
			{ID: "list", Min: 2, Max: 8, Sizes: sizes.List(2, 4, 8)},
			{ID: "steps", Min: 2, Max: 8, Sizes: sizes.Every(2, 3), PerWorker: 2, Count: 2},
			{ID: "of a type", Min: 1, Max: 30, Type: "A100"},
		}}
		s.Nodes = append(s.Nodes, policy.Node{Type: "A100", GPUs: 3}, policy.Node{Type: "H100", GPUs: 4})
		d := even{}.Allocate(s)
		must.NoError(t, policy.Validate(s, &d), must.Sprintf("%d GPUs: %v", gpus, d.Allocations))
	}
}
