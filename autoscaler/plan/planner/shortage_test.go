// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// short returns the workers that jobs lack if they would get ample ones, and the nodes
// wanted: "a 4, b 2 waiting; 1+1 a100".
func (c *Cluster) short(ample []int, totals ...int) string {
	wants := make([]Want, len(totals))
	for i, n := range totals {
		wants[i].Count = n
	}
	p := Make(c, wants, now, DefaultOptions())
	lacks := Shortages(c, wants, ample, &p, now)
	var jobs, nodes []string
	for _, s := range lacks {
		part := fmt.Sprint(c.Jobs[s.Job].Key.ID, " ", s.Workers)
		if s.Waiting {
			part += " waiting"
		}
		jobs = append(jobs, part)
	}
	for _, k := range NodeClasses(c, wants, lacks, &p, now) {
		if k.Waiting+k.Growing > 0 {
			nodes = append(nodes, fmt.Sprintf("%d+%d %s", k.Waiting, k.Growing, k.Class))
		}
	}
	if jobs == nil {
		return strings.Join(nodes, ", ")
	}
	return strings.Join(jobs, ", ") + "; " + strings.Join(nodes, ", ")
}

// classed names the classes of nodes.
func (c *Cluster) classed(names ...string) *Cluster {
	for i, name := range names {
		c.Nodes[i].NodeClass = name
	}
	return c
}

// TestShortages checks how many workers jobs lack, and which nodes would hold them.
// Jobs get the counts in totals. With ample room, they would get those in ample.
func TestShortages(t *testing.T) {
	gang := func(n int) func(*Job) {
		return func(j *Job) { j.Min, j.Max, j.Groups[0].Max = n, 64, 64 }
	}
	edit := func(more ...func(*Job)) func(*Job) {
		return func(j *Job) {
			j.Max, j.Groups[0].Max = 64, 64
			for _, f := range more {
				f(j)
			}
		}
	}
	slots := func(n int) func(*Job) { return func(j *Job) { j.Groups[0].Need.Slots = n } }
	for name, tc := range map[string]struct {
		cluster *Cluster
		ample   []int
		totals  []int
		want    string
	}{
		"a job at its want lacks nothing": {nodes(4).classed("a100").with("a", nil, 0, 0), []int{2}, []int{2}, ""},
		"what finds room is not lacking":  {nodes(4).classed("a100").with("a", nil, 0, 0), []int{4}, []int{4}, ""},
		"a gang that waits": {
			nodes(4).classed("a100").with("a", nil, 0, 0, 0, 0).with("b", gang(6)), []int{4, 6}, []int{4, 0}, "b 6 waiting; 2+0 a100"},
		"free room counts for a job that may spread": {
			nodes(4).classed("a100").with("a", nil, 0, 0).with("b", gang(6)), []int{2, 6}, []int{2, 0}, "b 6 waiting; 1+0 a100"},
		"a job that would grow": {
			nodes(4).classed("a100").with("a", edit(), 0, 0, 0, 0), []int{7}, []int{4}, "a 3; 0+1 a100"},
		"waiting first; the growing job takes what is left of its node": {
			nodes(4).classed("a100").with("a", edit(), 0, 0, 0, 0).with("b", gang(2)), []int{8, 2}, []int{4, 0}, "a 4, b 2 waiting; 1+1 a100"},
		"the policy does not want it": {
			nodes(4).classed("a100").with("a", nil, 0, 0, 0, 0).with("b", gang(2)), []int{4, 0}, []int{4, 0}, ""},
		"shrinks for another, and would not": {
			nodes(4).classed("a100").with("a", edit(), 0, 0, 0, 0).with("b", gang(2)), []int{4, 2}, []int{2, 2}, "a 2; 0+1 a100"},
		"room that is coming is no shortage": {
			nodes(4).classed("a100").with("a", edit(), 0, 0, 0, 0).with("b", gang(2)), []int{2, 2}, []int{2, 2}, ""},
		"scattered over nodes that are too small": {
			nodes(4, 4).classed("a100", "a100").with("a", edit(slots(3))).with("b", edit(slots(2))), []int{2, 1}, []int{2, 1}, "b 1 waiting; 1+0 a100"},
		"held jobs lack nothing": {
			nodes(4).classed("a100").with("a", edit(func(j *Job) { j.HoldReason = "paused" }), 0, 0, 0, 0), []int{8}, []int{4}, ""},
		"nor complete ones": {
			nodes(4).classed("a100").with("a", edit(func(j *Job) { j.Frozen = "complete" }), 0, 0, 0, 0), []int{8}, []int{4}, ""},
		"nor those whose count is set by hand": {
			nodes(4).classed("a100").with("a", edit(func(j *Job) { j.ManualUntil = now.Add(time.Minute) }), 0, 0, 0, 0), []int{8}, []int{4}, ""},
		"nor those on an unhealthy node": {
			nodes(4).classed("a100").with("a", edit(func(j *Job) { j.UnhealthyReason = "x" }), 0, 0, 0, 0), []int{8}, []int{4}, ""},
		"workers that found no place": {
			nodes(4).classed("a100").with("a", edit(func(j *Job) { j.Groups[0].GrowAfter = now.Add(time.Minute) }), 0, 0), []int{4}, []int{4}, "a 2; 0+1 a100"},
		"the class that takes fewest nodes": {
			nodes(2, 8).classed("small", "large").with("a", gang(20)), []int{20}, []int{0}, "a 20 waiting; 2+0 large"},
		"of equal ones the smaller": {
			nodes(2, 8).classed("small", "large").with("a", edit(), 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), []int{12}, []int{10}, "a 2; 0+1 small"},
		"only a class that it may use": {
			nodes(2, 8).classed("small", "large").with("a", func(j *Job) { gang(12)(j); j.Groups[0].Class = &Class{Places: []placement.Place{{}}} }),
			[]int{12}, []int{0}, "a 12 waiting; 5+0 small"},
		"what fits on no node of any class": {
			nodes(4).classed("a100").with("a", edit(slots(6))), []int{1}, []int{0}, "a 1 waiting; "},
		"workers that must not share a node": {
			nodes(4).classed("a100").with("a", edit(func(j *Job) { j.Groups[0].Spread, j.Min = true, 3 })), []int{3}, []int{0}, "a 3 waiting; 2+0 a100"},
		"within one rack: new nodes alone": {
			nodes(4, 4).classed("a100", "a100").inRacks("a", func(j *Job) { rackOnly(j); j.Min = 8 }, 0, 0), []int{8}, []int{0}, "a 8 waiting; 2+0 a100"},
		"within one rack: the plan found none": {
			nodes(4, 4).classed("a100", "a100").inRacks("a", func(j *Job) { rackOnly(j); j.Min = 8 }, 0, 0), []int{8}, []int{8}, "a 8 waiting; 2+0 a100"},
		"two gangs share a new node": {
			nodes(8).classed("a100").with("a", edit(), 0, 0, 0, 0, 0, 0, 0, 0).with("b", gang(3)).with("c", gang(5)), []int{8, 3, 5}, []int{8, 0, 0},
			"b 3 waiting, c 5 waiting; 1+0 a100"},
		"a drained node is a model of its class": {
			func() *Cluster {
				c := nodes(8, 4).classed("a100", "a100")
				c.Nodes[0].State = Draining
				return c.with("a", gang(12))
			}(), []int{12}, []int{0}, "a 12 waiting; 1+0 a100"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.want, tc.cluster.short(tc.ample, tc.totals...))
		})
	}
}

// TestNodeClasses_Counts checks the existing nodes.
func TestNodeClasses_Counts(t *testing.T) {
	c := nodes(4, 4, 4, 4).classed("a", "a", "b", "a").with("j", nil, 0)
	c.Nodes[3].State = Ineligible
	c.Nodes[2].Pool = "other"
	must.Eq(t, []NodeClass{
		{Pool: "gpu", Class: "a", Nodes: 2, Idle: 1}, {Pool: "other", Class: "b", Nodes: 1, Idle: 1},
	}, NodeClasses(c, []Want{{Count: 1}}, nil, &Plan{}, now))
}

// The job requires more new nodes than the model keeps open.
func TestNodeClasses_ManyWorkers(t *testing.T) {
	c := nodes(8).classed("a").with("huge", func(j *Job) { j.Max, j.Groups[0].Max = 100_000, 100_000 }, 0).with("b", nil)
	got := NodeClasses(c, []Want{{Count: 1}, {}}, []Shortage{{Job: 0, Workers: 99_999}, {Job: 1, Workers: 1, Waiting: true}}, &Plan{}, now)
	must.Eq(t, []NodeClass{{Pool: "gpu", Class: "a", Nodes: 1, Growing: (99_999 - 6 + 7) / 8}}, got)
}

// TestProperty_Nodes checks that the wanted nodes hold all workers that jobs lack, and that
// fewer nodes would not. If no worker lacks room, no node is wanted.
func TestProperty_Nodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "slots of a node")
		c, used := nodes(rapid.SliceOfN(rapid.Just(size), 1, 4).Draw(t, "nodes")...), 0
		var totals, ample []int
		for j := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			held := rapid.IntRange(0, size*len(c.Nodes)-used).Draw(t, "held")
			on := make([]int, held)
			for w := range on {
				on[w] = (used + w) / size
			}
			used += held
			min := max(1, rapid.IntRange(0, 8).Draw(t, "min"))
			if held > 0 {
				min = 1
			}
			c.with(fmt.Sprint("j", j), func(job *Job) { job.Min, job.Max, job.Groups[0].Max = min, 64, 64 }, on...)
			more := rapid.IntRange(0, 20).Draw(t, "more")
			if held+more < min {
				more = 0
			}
			totals, ample = append(totals, held), append(ample, held+more)
		}
		wants := make([]Want, len(totals))
		for j := range wants {
			wants[j].Count = totals[j]
		}
		p := Make(c, wants, now, DefaultOptions())
		short := Shortages(c, wants, ample, &p, now)
		lacking := 0
		for _, s := range short {
			lacking += s.Workers
		}
		k := NodeClasses(c, wants, short, &p, now)[0]
		more, free := k.Waiting+k.Growing, size*len(c.Nodes)-used
		if want := (max(0, lacking-free) + size - 1) / size; more != want {
			t.Fatalf("%d nodes of %d for %d workers in addition to %d free slots, want %d", more, size, lacking, free, want)
		}
		for range more {
			c.Nodes = append(c.Nodes, Node{ID: fmt.Sprint("new", len(c.Nodes)), Pool: "gpu", Bins: []Bin{{Slots: size}}})
		}
		all := c.class()
		for j := range c.Jobs {
			c.Jobs[j].Groups[0].Class, wants[j].Count = all, ample[j]
		}
		p = Make(c, wants, now, DefaultOptions())
		if left := Shortages(c, wants, ample, &p, now); len(left) > 0 {
			t.Fatalf("with %d more nodes %+v is still short: %+v", more, left, p)
		}
	})
}
