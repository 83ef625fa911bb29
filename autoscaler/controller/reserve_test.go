// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// TestReserve draws a pool of 8 slots with one elastic job of priority 50.
func TestReserve(t *testing.T) {
	type blocked = []cluster.Blocked
	for name, tc := range map[string]struct {
		count   int
		edit    func(*planner.Job)
		blocked blocked
		want    int
	}{
		"no one waits":                   {8, nil, nil, 0},
		"of its priority":                {8, nil, blocked{{Priority: 50, Slots: 3}}, 3},
		"not below the minimum":          {8, nil, blocked{{Priority: 90, Slots: 8}}, 6},
		"of lower priority":              {8, nil, blocked{{Priority: 49, Slots: 3}}, 0},
		"of lower priority, free slots":  {5, nil, blocked{{Priority: 49, Slots: 4}}, 3},
		"preemptible, higher priority":   {8, func(j *planner.Job) { j.Preemptible = true }, blocked{{Priority: 51, Slots: 8}}, 8},
		"preemptible, same priority":     {8, func(j *planner.Job) { j.Preemptible = true }, blocked{{Priority: 50, Slots: 8}}, 6},
		"paused":                         {8, func(j *planner.Job) { j.HoldReason = "paused" }, blocked{{Priority: 90, Slots: 3}}, 0},
		"scaled by hand":                 {8, func(j *planner.Job) { j.ManualUntil = time.Now().Add(time.Hour) }, blocked{{Priority: 90, Slots: 3}}, 0},
		"completed":                      {8, func(j *planner.Job) { j.Frozen = "completed" }, blocked{{Priority: 90, Slots: 3}}, 0},
		"the low rides not on the high":  {8, nil, blocked{{Priority: 50, Slots: 3}, {Priority: 10, Slots: 3}}, 3},
		"the low takes what no one uses": {2, nil, blocked{{Priority: 50, Slots: 3}, {Priority: 10, Slots: 9}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			j := planner.Job{Pool: "p", Min: 2, Priority: 50, Groups: []planner.Group{{Count: tc.count}}}
			if tc.edit != nil {
				tc.edit(&j)
			}
			v := &cluster.View{Facts: []cluster.Facts{{Observation: history.Observation{Slots: 1}}}}
			v.Nodes = []planner.Node{{Pool: "p", Bins: []planner.Bin{{Slots: 8}}}, {Pool: "other", Bins: []planner.Bin{{Slots: 8}}}}
			v.Jobs = []planner.Job{j}
			for _, b := range tc.blocked {
				b.Pool = "p"
				v.Blocked = append(v.Blocked, b)
			}
			new(loans).reserve(v, time.Now())
			must.Eq(t, tc.want, v.Reserved["p"])
		})
	}
}
