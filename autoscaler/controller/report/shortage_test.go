// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// TestAddShortage checks jobs with a level and workers of several slots.
func TestAddShortage(t *testing.T) {
	v := racks(t, spreadJob("a"), spreadJob("b"))
	for j := range v.Jobs {
		v.Jobs[j].Min, v.Jobs[j].Max = 1, 8
		v.Jobs[j].Groups = []planner.Group{{Name: "g", Max: 8, Need: placement.Need{Slots: 2}, Class: &planner.Class{Places: []placement.Place{{Node: 0}}}}}
		v.Facts[j].Spec = &jobspec.Spec{}
	}
	v.Jobs[1].Locality = &planner.Locality{Rule: placement.Rule{Within: 1}, Level: "meta.rack"}
	for i := range v.Nodes {
		v.Nodes[i].NodeClass = "a100"
	}
	s := &api.Status{Pools: []api.PoolStatus{{Name: "gpu"}}, Jobs: make([]api.JobStatus, 2)}
	addShortage(s, &Round{View: v, Wants: make([]planner.Want, 2), Ample: []int{3, 4}, Plan: &planner.Plan{}, Now: time.Unix(1_800_000_000, 0)})
	must.Eq(t, &api.Lack{Slots: 6}, s.Jobs[0].Lacks)
	must.Eq(t, &api.Lack{Slots: 8, Level: "meta.rack"}, s.Jobs[1].Lacks)
	must.Eq(t, []api.Lack{{Slots: 6}, {Slots: 8, Level: "meta.rack"}}, s.Pools[0].Lacks)
	// Two of a's workers find room; the third shares a node with b's.
	must.Eq(t, []api.NodeClass{{Class: "a100", Nodes: 3, Idle: 3, Waiting: 3}}, s.Pools[0].Nodes)
}

// Users choose the names of queues. A name is not shown to readers that may not see the
// job, and the number of names is bounded. The sum does not change.
func TestSlotsWanted(t *testing.T) {
	s := &api.Status{Pools: []api.PoolStatus{{Name: "gpu"}, {Name: "idle"}}}
	for i := range 3 * namedQueues {
		s.Jobs = append(s.Jobs, api.JobStatus{
			JobKey: identity.JobKey{Namespace: "default", ID: strconv.Itoa(i)}, Pool: "gpu", Queue: fmt.Sprintf("q\"\n%d", i), Lacks: &api.Lack{Slots: 1 + i},
		})
	}
	total := 3 * namedQueues * (3*namedQueues + 1) / 2
	sum := func(m map[wantedKey]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	all := slotsWanted(s, func(identity.JobKey) bool { return true })
	must.Eq(t, total, sum(all))
	must.Eq(t, namedQueues+2, len(all)) // those without a name, and the idle pool
	must.Eq(t, 3*namedQueues, all[wantedKey{pool: "gpu", queue: fmt.Sprintf("q\"\n%d", 3*namedQueues-1)}])
	must.Eq(t, map[wantedKey]int{{pool: "gpu"}: total, {pool: "idle"}: 0}, slotsWanted(s, func(identity.JobKey) bool { return false }))
}
