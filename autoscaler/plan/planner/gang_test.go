// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// gangJob is a job of one server for every four workers, all on the class's nodes.
func gangJob(class *Class, servers, workers int) Job {
	j := Job{
		Key: identity.JobKey{Namespace: "default", ID: "a"}, Pool: "gpu", Index: 7, Min: 5, Max: 20, Sizes: sizes.Every(5, 5), Ratio: []int{1, 4},
		Started: servers+workers > 0, LastChange: now.Add(-time.Hour),
		Groups: []Group{
			{Name: "ps", Count: servers, Max: 4, Need: placement.Need{Slots: 1}, Class: class},
			{Name: "w", Count: workers, Max: 16, Need: placement.Need{Slots: 1}, Class: class},
		},
	}
	at := 0
	for g, n := range []int{servers, workers} {
		for range n {
			j.Groups[g].Live = append(j.Groups[g].Live, Worker{Place: placement.Place{Node: at / 4}})
			at++
		}
	}
	return j
}

// TestMake_Gang draws gangs on nodes of four slots.
func TestMake_Gang(t *testing.T) {
	gang := func(slots, servers, workers int, edits ...func(*Cluster, *Job)) *Cluster {
		var each []int
		all := []int{}
		for left := slots; left > 0; left -= 4 {
			all = append(all, len(each))
			each = append(each, min(4, left))
		}
		c := nodes(each...)
		j := gangJob(c.class(all...), servers, workers)
		for _, edit := range edits {
			edit(c, &j)
		}
		c.Jobs = []Job{j}
		return c
	}
	unplaced := func(g, n int) func(*Cluster, *Job) {
		return func(_ *Cluster, j *Job) {
			j.Groups[g].Live = j.Groups[g].Live[:len(j.Groups[g].Live)-n]
			j.PendingSince = now.Add(-time.Hour)
		}
	}
	incomplete := func(_ *Cluster, j *Job) { j.Incomplete = true }
	preemptible := func(_ *Cluster, j *Job) { j.Preemptible = true }
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    int
		drawing string
	}{
		"starts whole":                               {gang(8, 0, 0), 5, "a 0→5 start ps:0→1 w:0→4"},
		"as many units as fit":                       {gang(12, 0, 0), 20, "a 0→10 start ps:0→2 w:0→8"},
		"not a unit less one":                        {gang(4, 0, 0), 5, ""},
		"grows by units":                             {gang(16, 1, 4), 20, "a 5→15 grow ps:1→3 w:4→12"},
		"not by less":                                {gang(8, 1, 4), 20, ""},
		"shrinks by units, workers first":            {gang(16, 3, 12), 5, "a 15→5 shrink w:12→4 ps:3→1"},
		"whatever a policy wants":                    {gang(16, 3, 12), 12, "a 15→10 shrink w:12→8 ps:3→2"},
		"a group's maximum":                          {gang(40, 0, 0, func(_ *Cluster, j *Job) { j.Groups[1].Max = 8 }), 20, "a 0→10 start ps:0→2 w:0→8"},
		"suspended whole":                            {gang(16, 1, 4, preemptible), 0, "a 5→0 suspend w:4→0 ps:1→0"},
		"a start broke off, and there is room":       {gang(8, 1, 0, incomplete), 5, "a 1→5 repair w:0→4"},
		"a start broke off, and the room has gone":   {gang(4, 1, 0, incomplete), 5, "a 1→0 repair ps:1→0"},
		"a start broke off, and others go first now": {gang(8, 1, 0, incomplete), 0, "a 1→0 repair ps:1→0"},
		"growth broke off":                           {gang(16, 2, 4), 10, "a 6→10 repair w:4→8"},
		"growth broke off, and the room has gone":    {gang(8, 2, 4), 10, "a 6→5 repair ps:2→1"},
		"a shrink broke off":                         {gang(16, 3, 4), 5, "a 7→5 repair ps:3→1"},
		"a suspension broke off":                     {gang(8, 1, 0, preemptible), 0, "a 1→0 repair ps:1→0"},
		"set by hand, and completed later":           {gang(8, 1, 2), 5, "a 3→5 repair w:2→4"},
		"set by hand, without room to complete it":   {gang(4, 1, 3), 0, ""},
		"not while it is left alone":                 {gang(8, 1, 0, func(_ *Cluster, j *Job) { j.HoldReason = "x" }), 5, ""},
		"not on an unhealthy node":                   {gang(8, 1, 0, func(_ *Cluster, j *Job) { j.UnhealthyReason = "x" }), 5, ""},
		"not while workers are ending": {gang(8, 1, 0, func(_ *Cluster, j *Job) {
			j.Groups[1].Live = append(j.Groups[1].Live, Worker{Place: placement.Place{Node: 1}, Ending: true})
		}), 5, ""},
		"a worker found no place: back to whole units": {gang(8, 2, 8, unplaced(1, 2)), 10, "a 10→5 rollback w:8→4 ps:2→1"},
		"its first workers found no place":             {gang(8, 1, 4, unplaced(1, 1), incomplete), 5, "a 5→0 rollback w:4→0 ps:1→0"},
		"a running gang lost a worker":                 {gang(4, 1, 4, unplaced(1, 1)), 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", *tc.cluster)
			must.Eq(t, tc.drawing, tc.cluster.plan(tc.want).drawing())
			must.Eq(t, before, fmt.Sprintf("%+v", *tc.cluster), must.Sprint("the cluster was changed"))
		})
	}
}

// The status of a waiting gang has the slots that it lacks, and the nodes that would hold
// it.
func TestMake_GangLacks(t *testing.T) {
	c := nodes(4)
	c.Jobs = []Job{gangJob(c.class(0), 0, 0)}
	p := c.plan(5)
	must.Len(t, 1, p.Waits)
	must.Eq(t, waiting.NoRoom, p.Waits[0].Reason)
	must.Eq(t, 5, p.Waits[0].Shortfall)
	wants := []Want{{Count: 5}}
	short := Shortages(c, wants, []int{5}, &p, now)
	must.Eq(t, []Shortage{{Job: 0, Workers: 5, Waiting: true}}, short)
	must.Eq(t, 2, NodeClasses(c, wants, short, &p, now)[0].Waiting)
}

// Leaders die between any two writes, and policies decide at random. After two plans with
// all their writes, each gang is whole. No plan asks for more slots than exist.
func TestProperty_GangsAreWholeAfterCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(0, 24).Draw(t, "slots")
		c := &Cluster{Nodes: []Node{{ID: "n", Pool: "gpu", Bins: []Bin{{Slots: slots}}}}}
		class := &Class{Places: []placement.Place{{}}}
		for i := range rapid.IntRange(1, 3).Draw(t, "jobs") {
			j := gangJob(class, 0, 0)
			j.Key.ID = fmt.Sprint("j", i)
			j.Ratio = []int{rapid.IntRange(1, 3).Draw(t, "servers"), rapid.IntRange(1, 4).Draw(t, "workers")}
			j.Min, j.Sizes, j.Preemptible = j.unit(), sizes.Every(j.unit(), j.unit()), rapid.Bool().Draw(t, "preemptible")
			j.Groups[0].Max, j.Groups[1].Max, j.Incomplete = 4, 16, true
			j.Max = min(4/j.Ratio[0], 16/j.Ratio[1]) * j.unit()
			c.Jobs = append(c.Jobs, j)
		}
		at := now
		round := func(crash int) {
			at = at.Add(time.Hour)
			wants := make([]Want, len(c.Jobs))
			for j := range wants {
				wants[j].Count = rapid.IntRange(0, 24).Draw(t, "want")
			}
			for _, a := range Make(c, wants, at, DefaultOptions()).Actions {
				j := slices.IndexFunc(c.Jobs, func(job Job) bool { return job.Key == a.Job })
				for _, s := range a.Steps {
					if crash--; crash == -1 {
						return
					}
					g := slices.IndexFunc(c.Jobs[j].Groups, func(g Group) bool { return g.Name == s.Group })
					group := &c.Jobs[j].Groups[g]
					must.Eq(t, s.From, group.Count)
					group.Count = s.To
					group.Live = make([]Worker, s.To) // Nomad acts at once
				}
				c.Jobs[j].Started = true
				c.Jobs[j].Incomplete = c.Jobs[j].Incomplete && !c.Jobs[j].HasMinimum()
			}
			used := 0
			for j := range c.Jobs {
				used += c.Jobs[j].Count()
			}
			must.LessEq(t, slots, used)
		}
		for range rapid.IntRange(1, 8).Draw(t, "crashes") {
			round(rapid.IntRange(0, 6).Draw(t, "writes before the crash"))
		}
		round(1 << 30)
		round(1 << 30)
		for j := range c.Jobs {
			must.False(t, c.Jobs[j].ragged(), must.Sprint(c.Jobs[j].Key, c.Jobs[j].counts()))
		}
	})
}
