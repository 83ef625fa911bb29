// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// reserve keeps slots free that jobs which are not elastic wait for, as far
// as elastic jobs of no higher priority hold them above their minimum.
func reserve(v *cluster.View) {
	if len(v.Blocked) == 0 {
		return
	}
	v.Reserved = map[string]int{}
	for _, b := range v.Blocked { // highest priority first
		given := v.Reserved[b.Pool]
		v.Reserved[b.Pool] += min(b.Slots, max(0, spare(v, b.Pool, b.Priority)-given))
	}
}

// spare is how many slots of a pool elastic jobs could do without for a job of
// the given priority.
func spare(v *cluster.View, pool string, priority int) int {
	n := 0
	for i := range v.Nodes {
		if v.Nodes[i].Pool == pool && v.Nodes[i].State == planner.Ready {
			for _, bin := range v.Nodes[i].Bins {
				n += max(0, bin.Slots)
			}
		}
	}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.Pool != pool {
			continue
		}
		keep := j.Count()
		if j.Priority <= priority && j.Frozen == "" && j.HoldReason == "" {
			keep = min(keep, j.Min)
			if j.Preemptible && j.Priority < priority {
				keep = 0
			}
		}
		n -= keep * v.Facts[i].Slots
	}
	return n
}
