// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// A job has use for all slots up to its maximum if a policy decides about it, and else only for
// those that it has.
func TestDemandOf(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		job  planner.Job
		want queue.Demand
	}{
		"waits":           {planner.Job{}, queue.Demand{Wanted: 16}},
		"preemptible":     {planner.Job{Preemptible: true, Groups: []planner.Group{{Count: 3, Need: placement.Need{Slots: 2}}}}, queue.Demand{Wanted: 16}},
		"runs":            {planner.Job{Groups: []planner.Group{{Count: 3, Need: placement.Need{Slots: 2}}}}, queue.Demand{Firm: 4, Wanted: 16}},
		"held":            {planner.Job{HoldReason: "paused", Groups: []planner.Group{{Count: 3, Need: placement.Need{Slots: 2}}}}, queue.Demand{Firm: 6, Wanted: 6}},
		"set by hand":     {planner.Job{ManualUntil: now.Add(time.Minute), Groups: []planner.Group{{Count: 3, Need: placement.Need{Slots: 2}}}}, queue.Demand{Firm: 6, Wanted: 6}},
		"set by hand ago": {planner.Job{ManualUntil: now, Groups: []planner.Group{{Count: 3, Need: placement.Need{Slots: 2}}}}, queue.Demand{Firm: 4, Wanted: 16}},
		"never fits":      {planner.Job{NeverFits: "no node has 9 GPUs"}, queue.Demand{}},
		"of another pool": {planner.Job{Pool: "other", Groups: []planner.Group{{Count: 3, Need: placement.Need{Slots: 2}}}}, queue.Demand{}},
	} {
		t.Run(name, func(t *testing.T) {
			tree, problems := queue.New(nil)
			must.SliceEmpty(t, problems)
			layout := tree.Layout()
			key := identity.JobKey{Namespace: "a", ID: "train"}
			if tc.job.Pool == "" {
				tc.job.Pool = "p"
			}
			tc.job.Key, tc.job.Min, tc.job.Max = key, 2, 8
			v := &cluster.View{Facts: []cluster.Facts{{Observation: history.Observation{Slots: 2}}}}
			v.Jobs = []planner.Job{tc.job}
			v.Rigid = []cluster.Rigid{{Key: key, Pool: "p", Slots: 1}, {Key: key, Pool: "other", Slots: 1}}
			want := tc.want
			want.Firm, want.Wanted = want.Firm+1, want.Wanted+1 // the job that is not elastic
			must.Eq(t, want, DemandOf(v, "p", layout, now)[layout.Leaf("", "a")])
		})
	}
}
