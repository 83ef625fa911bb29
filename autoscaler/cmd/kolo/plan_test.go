// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// A plan shows spares next to the workers that train, and why they change.
func TestDrawPlan_Spares(t *testing.T) {
	out := drawPlan([]api.Proposal{{Pool: "gpu", Policy: "kolo", Jobs: []api.ProposedJob{
		{Job: "a", Count: 8, Spares: 1, Want: 8, Write: 8, Cause: "spare", Reason: "gives back a spare: others need its slots"},
		{Job: "b", Count: 2, Want: 2, Write: 2, WriteSpare: 1, Cause: "spare", Reason: "adds a spare, ready to replace a lost worker"},
	}}})
	must.StrContains(t, out, "a    8+1  8     8 (spare)    gives back a spare: others need its slots")
	must.StrContains(t, out, "b    2    2     2+1 (spare)  adds a spare, ready to replace a lost worker")
}

// The status of a pool shows how many slots spares hold.
func TestDrawStatus_Spares(t *testing.T) {
	s := &api.Status{Ready: true, Pools: []api.PoolStatus{{Name: "gpu", Policy: "kolo", Capacity: 16, Used: 12, Spares: 2}}}
	must.StrContains(t, drawStatus(s, false), "12    0        2 of the used slots held by spares")
}
