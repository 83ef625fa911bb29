// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// TestMake_Groups checks to which groups the workers of a job go.
func TestMake_Groups(t *testing.T) {
	// Two racks of two nodes of four; group r0 goes to rack 0, r1 to rack 1.
	racks := func(count0, count1 int, live0, live1 []int, busy ...int) *Cluster {
		c := nodes(4, 4, 4, 4)
		for _, n := range busy {
			c.Nodes[n].Bins[0].Slots--
		}
		place := func(at []int) (out []Worker) {
			for _, n := range at {
				out = append(out, Worker{Place: placement.Place{Node: n}})
			}
			return out
		}
		c.Jobs = []Job{{
			Key: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", Index: 7, Min: 1, Max: 16, Started: count0+count1 > 0,
			Groups: []Group{
				{Name: "r0", Count: count0, Max: 16, Need: placement.Need{Slots: 1}, Class: c.class(0, 1), Live: place(live0)},
				{Name: "r1", Count: count1, Max: 16, Need: placement.Need{Slots: 1}, Class: c.class(2, 3), Live: place(live1)},
			},
		}}
		return c
	}
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    int
		drawing string
	}{
		"starts in one rack":           {racks(0, 0, nil, nil), 6, "a 0→6 start r0:0→6"},
		"starts where most room is":    {racks(0, 0, nil, nil, 0), 8, "a 0→8 start r1:0→8"},
		"grows where it is":            {racks(0, 2, nil, []int{2, 2}), 4, "a 2→4 grow r1:2→4"},
		"spills over":                  {racks(0, 7, nil, []int{2, 2, 2, 2, 3, 3, 3}), 9, "a 7→9 grow r0:0→1 r1:7→8"},
		"leaves the smaller part":      {racks(5, 2, []int{0, 0, 0, 0, 1}, []int{2, 2}), 4, "a 7→4 shrink r1:2→0 r0:5→4"},
		"what has no place goes first": {racks(3, 2, []int{0}, []int{2, 2}), 3, "a 5→3 shrink r0:3→1"},
		"empties the smaller group":    {racks(3, 2, []int{0, 0, 0}, []int{2, 2}), 3, "a 5→3 shrink r1:2→0"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.drawing, tc.cluster.plan(tc.want).drawing())
		})
	}
}

// Workers that found no place in their group go to other groups of the job with room. If
// none has room, the change is rolled back.
func TestMake_Moves(t *testing.T) {
	// Group r0 goes to node 0, r1 to node 1, r2 to node 2, each of four slots.
	// Workers beyond those alive have waited for a minute.
	cluster := func(edit func(*Cluster, *Job), alive ...int) *Cluster {
		c := nodes(4, 4, 4)
		j := Job{
			Key: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", Index: 7, Min: 1, Max: 12, Started: true,
			LastChange: now.Add(-time.Minute), PendingSince: now.Add(-time.Minute),
		}
		for g, n := range alive {
			group := Group{Name: fmt.Sprint("r", g), Count: n, Max: 12, Need: placement.Need{Slots: 1}, Class: c.class(g)}
			for range n {
				group.Live = append(group.Live, Worker{Place: placement.Place{Node: g}})
			}
			j.Groups = append(j.Groups, group)
		}
		c.Jobs = []Job{j}
		edit(c, &c.Jobs[0])
		return c
	}
	waiting := func(group, n int) func(*Cluster, *Job) {
		return func(_ *Cluster, j *Job) { j.Groups[group].Count += n }
	}
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    int
		drawing string
	}{
		"to the group with room": {cluster(waiting(0, 2), 4, 1, 0), 7, "a 7→7 move r0:6→4 r1:1→3"},
		"its nodes are gone": {cluster(func(c *Cluster, j *Job) {
			c.Nodes[0].State, j.Groups[0].Count = Draining, 4
		}, 0, 2, 0), 6, "a 6→6 move r0:4→0 r1:2→4 r2:0→2"},
		"its nodes are closed": {cluster(func(c *Cluster, j *Job) {
			c.Nodes[0].State, j.Groups[0].Count = Ineligible, 4
		}, 2, 2, 0), 6, "a 6→6 move r0:4→2 r1:2→4"},
		"as many as fit": {cluster(func(c *Cluster, j *Job) {
			j.Groups[0].Count = 8
			c.Nodes[2].Bins[0].Slots = 1
		}, 4, 3, 0), 11, "a 11→9 move r0:8→4 r1:3→4 r2:0→1"},
		"none fits": {cluster(waiting(0, 2), 4, 4, 4), 14, "a 14→12 rollback r0:6→4"},
		"not to a group that failed just now": {cluster(func(_ *Cluster, j *Job) {
			j.Groups[0].Count, j.Groups[1].GrowAfter = 6, now.Add(time.Minute)
		}, 4, 1, 0), 7, "a 7→7 move r0:6→4 r2:0→2"},
		"not into room that others were promised": {cluster(func(c *Cluster, j *Job) {
			j.Groups[0].Count, c.Reserved = 6, map[string]int{"gpu": 6}
		}, 4, 1, 0), 7, "a 7→6 move r0:6→4 r1:1→2"},
		"no further than its sizes": {cluster(func(c *Cluster, j *Job) {
			j.Groups[0].Count, j.Sizes, c.Nodes[2].Bins[0].Slots, c.Nodes[1].Bins[0].Slots = 6, sizes.List(4, 5, 8), 0, 2
		}, 4, 1, 0), 8, "a 7→5 rollback r0:6→4"},
		"a size between": {cluster(func(c *Cluster, j *Job) {
			j.Groups[0].Count, j.Sizes, c.Nodes[2].Bins[0].Slots = 8, sizes.List(4, 6, 9), 0
		}, 4, 1, 0), 9, "a 9→6 move r0:8→4 r1:1→2"},
		"what its minimum needs waits on": {cluster(func(c *Cluster, j *Job) {
			j.Groups[0].Count, j.Min, c.Nodes[2].Bins[0].Slots, c.Nodes[1].Bins[0].Slots = 7, 8, 0, 2
		}, 4, 1, 0), 8, "a 8→8 move r0:7→6 r1:1→2"},
		"a group keeps Nomad's minimum": {cluster(func(_ *Cluster, j *Job) {
			j.Groups[0].Count, j.Groups[0].Min = 6, 5
		}, 4, 1, 0), 7, "a 7→7 move r0:6→5 r1:1→2"},
		"a whole gang": {cluster(func(c *Cluster, j *Job) {
			c.Nodes[0].State, j.Groups[0].Count, j.Min, j.Started = Ineligible, 3, 3, false
		}, 0, 0, 0), 3, "a 3→3 move r0:3→0 r1:0→3"},
		"no gang in part": {cluster(func(c *Cluster, j *Job) {
			c.Nodes[0].State, j.Groups[0].Count, j.Min, j.Started = Ineligible, 3, 3, false
			c.Nodes[1].Bins[0].Slots, c.Nodes[2].Bins[0].Slots = 1, 1
		}, 0, 0, 0), 3, "a 3→0 rollback r0:3→0"},
		"not while a worker is on an unhealthy node": {cluster(func(_ *Cluster, j *Job) {
			j.Groups[0].Count, j.UnhealthyReason = 6, "x"
		}, 4, 1, 0), 7, ""},
		"not too early": {cluster(func(_ *Cluster, j *Job) {
			j.Groups[0].Count, j.PendingSince, j.LastChange = 6, now.Add(-29*time.Second), now.Add(-time.Minute)
		}, 4, 1, 0), 7, ""},
		"not when a user set it by hand": {cluster(func(_ *Cluster, j *Job) {
			j.Groups[0].Count, j.ManualUntil = 6, now.Add(time.Minute)
		}, 4, 1, 0), 7, ""},
		"not for the sake of order": {cluster(func(*Cluster, *Job) {}, 3, 1, 0), 4, ""},
		"growth goes where it did not fail": {cluster(func(_ *Cluster, j *Job) {
			j.Groups[0].GrowAfter = now.Add(time.Minute)
		}, 2, 1, 0), 5, "a 3→5 grow r1:1→3"},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", *tc.cluster)
			p := tc.cluster.plan(tc.want)
			must.Eq(t, tc.drawing, p.drawing())
			must.Eq(t, before, fmt.Sprintf("%+v", *tc.cluster), must.Sprint("the cluster was changed"))
			for _, a := range p.Actions {
				if a.Cause == Move || a.Cause == Rollback {
					must.Eq(t, []string{"r0"}, a.Unplaced)
				}
			}
		})
	}
}

// Within one plan, room to which a job moves is not given to another job, and room that it
// leaves is given only once.
func TestMake_AMoveTakesItsRoom(t *testing.T) {
	for others, drawing := range map[int]string{
		0: "a 3→3 move r0:3→0 r1:0→3, b 0→1 start",
		1: "a 3→3 move r0:3→0 r1:0→3", // the last slot is promised
		2: "a 3→2 move r0:3→0 r1:0→2",
	} {
		c := nodes(4, 4)
		c.Nodes[0].State, c.Reserved = Ineligible, map[string]int{"gpu": others}
		c.Jobs = []Job{{
			Key: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", Index: 7, Min: 1, Max: 8, Started: true, PendingSince: now.Add(-time.Minute),
			Groups: []Group{
				{Name: "r0", Count: 3, Max: 8, Need: placement.Need{Slots: 1}, Class: c.class(0)},
				{Name: "r1", Max: 8, Need: placement.Need{Slots: 1}, Class: c.class(1)},
			},
		}}
		c.with("b", nil)
		must.Eq(t, drawing, c.plan(3, 4).drawing())
	}
}
