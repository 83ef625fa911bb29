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

// withoutSlots lets the servers of a gang hold no slot but 10 MHz each, of nodes with these
// amounts. Nodes that the cluster lacks are added without slots; others keep theirs.
func withoutSlots(c *Cluster, j *Job, cpu ...int) {
	servers := &j.Groups[0]
	servers.Need, servers.Class = placement.Need{CPU: 10}, &Class{}
	for i := range j.Groups[1].Live {
		j.Groups[1].Live[i].Node = i / 4 // where servers took slots
	}
	for i, n := range cpu {
		if i == len(c.Nodes) {
			c.Nodes = append(c.Nodes, Node{ID: fmt.Sprint("cpu", i), Pool: "gpu"})
		}
		c.Nodes[i].CPU = n
		servers.Class.Places = append(servers.Class.Places, placement.Place{Node: i, Bin: -1})
	}
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
	slotless := func(cpu ...int) func(*Cluster, *Job) { return func(c *Cluster, j *Job) { withoutSlots(c, j, cpu...) } }
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
		"not while it is held":                       {gang(8, 1, 0, func(_ *Cluster, j *Job) { j.HoldReason = "x" }), 5, ""},
		"not on an unhealthy node":                   {gang(8, 1, 0, func(_ *Cluster, j *Job) { j.UnhealthyReason = "x" }), 5, ""},
		"not while workers are ending": {gang(8, 1, 0, func(_ *Cluster, j *Job) {
			j.Groups[1].Live = append(j.Groups[1].Live, Worker{Place: placement.Place{Node: 1}, Ending: true})
		}), 5, ""},
		"a worker found no place: back to whole units": {gang(8, 2, 8, unplaced(1, 2)), 10, "a 10→5 rollback w:8→4 ps:2→1"},
		"its first workers found no place":             {gang(8, 1, 4, unplaced(1, 1), incomplete), 5, "a 5→0 rollback w:4→0 ps:1→0"},
		"a running gang lost a worker":                 {gang(4, 1, 4, unplaced(1, 1)), 5, ""},

		"servers without slots: starts whole":            {gang(4, 0, 0, slotless(10)), 5, "a 0→5 start ps:0→1 w:0→4"},
		"servers without slots: as many as CPU allows":   {gang(12, 0, 0, slotless(10, 19, 9)), 20, "a 0→10 start ps:0→2 w:0→8"},
		"servers without slots: grow":                    {gang(12, 1, 4, slotless(10, 10)), 20, "a 5→10 grow ps:1→2 w:4→8"},
		"servers without slots: shrink":                  {gang(12, 2, 8, slotless(20)), 5, "a 10→5 shrink w:8→4 ps:2→1"},
		"servers without slots: on a node without slots": {gang(4, 0, 0, slotless(0, 10)), 5, "a 0→5 start ps:0→1 w:0→4"},
		"servers without slots: not without their CPU":   {gang(8, 0, 0, slotless(9, 9)), 5, ""},
		"servers without slots: not without the workers": {gang(3, 0, 0, slotless(10)), 5, ""},
		"a server found no place: back to whole units":   {gang(8, 2, 8, slotless(20), unplaced(0, 1)), 10, "a 10→5 rollback w:8→4 ps:2→1"},
		"its first server found no place":                {gang(4, 1, 4, slotless(10), unplaced(0, 1), incomplete), 5, "a 5→0 rollback w:4→0 ps:1→0"},
		"a running gang lost its only server":            {gang(4, 1, 4, slotless(10), unplaced(0, 1)), 5, ""},
		"a server lost, and it may be suspended":         {gang(4, 1, 4, slotless(10), unplaced(0, 1), preemptible), 5, "a 5→0 rollback w:4→0 ps:1→0"},
		"a start without slots broke off":                {gang(4, 1, 0, slotless(10), incomplete), 5, "a 1→5 repair w:0→4"},
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

// A gang whose servers hold no slot lacks the slots of its workers, or a node for a server.
func TestMake_GangWithoutSlotsLacks(t *testing.T) {
	c := nodes(3)
	c.Jobs = []Job{gangJob(c.class(0), 0, 0)}
	withoutSlots(c, &c.Jobs[0], 10)
	p := c.plan(5)
	must.Len(t, 1, p.Waits)
	must.Eq(t, waiting.NoRoom, p.Waits[0].Reason)
	wants := []Want{{Count: 5}}
	short := Shortages(c, wants, []int{5}, &p, now)
	must.Eq(t, 2, NodeClasses(c, wants, short, &p, now)[0].Waiting, must.Sprint("four workers on nodes of three slots"))

	c.Nodes[0].Bins[0].Slots, c.Nodes[0].CPU = 4, 9
	must.Eq(t, waiting.Fragmented, c.plan(5).Waits[0].Reason)

	c = nodes(8)
	c.Jobs = []Job{gangJob(c.class(0), 1, 4)}
	withoutSlots(c, &c.Jobs[0], 19)
	must.Eq(t, "needs room for 5 more, and there is room for 0", c.plan(10).Waits[0].Why)

	c.Jobs[0].Groups[0].Live, c.Jobs[0].PendingSince, c.Jobs[0].Incomplete = nil, now.Add(-time.Hour), true
	must.Eq(t, "1 of 5 workers found no place in 30s", c.plan(5).Actions[0].Reason)
}

// The slots of a gang are known even if its user scales one group by hand.
func TestJob_SlotsOfARaggedGang(t *testing.T) {
	c := nodes(8)
	j := gangJob(c.class(0), 1, 7)
	must.Eq(t, []int{8, 8}, []int{j.AskedSlots(), j.LiveSlots()})
	withoutSlots(c, &j, 10)
	j.Groups[1].Count++
	must.Eq(t, []int{8, 7}, []int{j.AskedSlots(), j.LiveSlots()})
}

// Leaders die between any two writes, and policies decide at random. After two plans with
// all their writes, each gang is whole. No plan asks for more slots than exist.
func TestProperty_GangsAreWholeAfterCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, cpu := rapid.IntRange(0, 24).Draw(t, "slots"), rapid.IntRange(0, 100).Draw(t, "CPU")
		c := &Cluster{Nodes: []Node{{ID: "n", Pool: "gpu", CPU: cpu, Bins: []Bin{{Slots: slots}}}}}
		class := &Class{Places: []placement.Place{{}}}
		for i := range rapid.IntRange(1, 3).Draw(t, "jobs") {
			j := gangJob(class, 0, 0)
			j.Key.ID = fmt.Sprint("j", i)
			j.Ratio = []int{rapid.IntRange(1, 3).Draw(t, "servers"), rapid.IntRange(1, 4).Draw(t, "workers")}
			j.Min, j.Sizes, j.Preemptible = j.unit(), sizes.Every(j.unit(), j.unit()), rapid.Bool().Draw(t, "preemptible")
			j.Groups[0].Max, j.Groups[1].Max, j.Incomplete = 4, 16, true
			j.Max = min(4/j.Ratio[0], 16/j.Ratio[1]) * j.unit()
			if rapid.Bool().Draw(t, "servers without slots") {
				withoutSlots(c, &j, cpu)
			}
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
			used, usedCPU := 0, 0
			for j := range c.Jobs {
				for _, g := range c.Jobs[j].Groups {
					used += g.Count * g.Need.Slots
					usedCPU += g.Count * g.Need.CPU
				}
			}
			must.LessEq(t, slots, used)
			must.LessEq(t, cpu, usedCPU)
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
