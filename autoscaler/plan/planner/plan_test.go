// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

var now = time.Unix(1_800_000_000, 0)

// nodes makes one ready node per number, with that many slots.
func nodes(slots ...int) *Cluster {
	c := &Cluster{}
	for i, n := range slots {
		c.Nodes = append(c.Nodes, Node{ID: string(rune('a' + i)), Pool: "gpu", Bins: []Bin{{Slots: n}}})
	}
	return c
}

// class returns all bins of the given nodes.
func (c *Cluster) class(nodes ...int) *Class {
	out := &Class{}
	if nodes == nil {
		for i := range c.Nodes {
			nodes = append(nodes, i)
		}
	}
	for _, n := range nodes {
		for b := range c.Nodes[n].Bins {
			out.Places = append(out.Places, placement.Place{Node: n, Bin: b})
		}
	}
	return out
}

// with adds a job of one group, with 1 to 8 workers of one slot, which are on the given
// nodes.
func (c *Cluster) with(id string, edit func(*Job), on ...int) *Cluster {
	live := []Worker{}
	for _, n := range on {
		live = append(live, Worker{Place: placement.Place{Node: n}})
	}
	j := Job{
		Key: identity.JobKey{Namespace: "default", ID: id}, Pool: "gpu", Index: uint64(100 + len(c.Jobs)), Min: 1, Max: 8, Started: len(on) > 0,
		Groups: []Group{{Name: "workers", Count: len(on), Max: 8, Need: placement.Need{Slots: 1}, Class: c.class(), Live: live}},
	}
	if edit != nil {
		edit(&j)
	}
	c.Jobs = append(c.Jobs, j)
	return c
}

// plan asks for the given totals, in the order of the jobs.
func (c *Cluster) plan(totals ...int) Plan {
	wants := make([]Want, len(totals))
	for i, n := range totals {
		wants[i] = Want{Count: n, Reason: "the policy wants it"}
	}
	return Make(c, wants, now, DefaultOptions())
}

// drawing returns a plan in short form: "a 2→4 grow, b 0→1 start".
func (p Plan) drawing() string {
	var parts []string
	for _, a := range p.Actions {
		steps := ""
		var stepsSb74 strings.Builder
		for _, s := range a.Steps {
			if len(a.Steps) > 1 || s.Group != "workers" {
				fmt.Fprintf(&stepsSb74, " %s:%d→%d", s.Group, s.From, s.To)
			}
		}
		steps += stepsSb74.String()
		parts = append(parts, fmt.Sprintf("%s %d→%d %s%s", a.Job.ID, a.From, a.To, a.Cause, steps))
	}
	return strings.Join(parts, ", ")
}

func TestMake(t *testing.T) {
	min4 := func(j *Job) { j.Min = 4 }
	preemptible := func(j *Job) { j.Preemptible = true }
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    []int
		drawing string
		waits   string // part of the first wait's reason
	}{
		"nothing to do":                {nodes(4).with("a", nil, 0, 0), []int{2}, "", ""},
		"first start":                  {nodes(4).with("a", nil), []int{4}, "a 0→4 start", ""},
		"grow into free room":          {nodes(4).with("a", nil, 0), []int{3}, "a 1→3 grow", ""},
		"capacity: no more than fits":  {nodes(4).with("a", nil, 0), []int{8}, "a 1→4 grow", "room for 3 of 7"},
		"capacity: two jobs, one rest": {nodes(4).with("a", nil).with("b", nil), []int{3, 3}, "a 0→3 start, b 0→1 start", "room for 1 of 3"},
		"capacity: shrink first, grow when it is seen": {
			nodes(4).with("a", nil, 0, 0, 0, 0).with("b", nil), []int{2, 2}, "a 4→2 shrink", "room for 0 more now, the rest when"},
		"capacity: workers that end still hold their room": {
			nodes(4).with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 2, now }, 0, 0, 0, 0).with("b", nil), []int{2, 2}, "", "room for 0 more now"},
		"capacity: growth waits for workers that end": {
			nodes(6).with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 1, now }, 0, 0).with("b", nil, 0), []int{1, 5}, "", "room for 3 more now, the rest when"},
		"capacity: growth does not wait for ever": {
			nodes(6).with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 1, now.Add(-time.Hour) }, 0, 0).with("b", nil, 0), []int{1, 5}, "b 1→4 grow", "room for 3 of 4"},
		"capacity: growth does not wait for workers of lost nodes": {
			func() *Cluster {
				c := nodes(6, 2)
				c.Nodes[1].State = Draining
				return c.with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 1, now }, 0, 1).with("b", nil, 0)
			}(), []int{1, 6}, "b 1→5 grow", "room for 4 of 5"},
		"capacity: a start waits for no one": {
			nodes(6).with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 1, now }, 0, 0).with("b", func(j *Job) { j.Min = 2 }), []int{1, 5}, "b 0→4 start", "room for 4 of 5"},
		"capacity: a start waits for its minimum": {
			nodes(6).with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 1, now }, 0, 0).with("b", func(j *Job) { j.Min = 5 }), []int{1, 5}, "", "room for 4 more now, the rest when"},
		"capacity: workers that end do not fill the count again": {
			nodes(4).with("a", func(j *Job) { j.Groups[0].Live[0].Ending, j.LastChange = true, now }, 0, 0, 0).with("b", nil), []int{3, 1}, "", "needs room for 1 more"},
		"capacity: a job does not grow over its own ending workers": {
			nodes(8).with("a", func(j *Job) { j.Groups[0].Count = 2 }, 0, 0, 0), []int{4}, "", "still ending"},
		"capacity: freed and seen": {
			nodes(4).with("a", nil, 0, 0).with("b", nil), []int{2, 2}, "b 0→2 start", ""},
		"capacity: workers asked for and not placed count": {
			nodes(4).with("a", func(j *Job) { j.Groups[0].Count, j.LastChange = 4, now }, 0).with("b", nil), []int{4, 1}, "", "needs room for 1 more"},
		"capacity: a closed node gives no room": {
			func() *Cluster { c := nodes(4, 4); c.Nodes[1].State = Ineligible; return c.with("a", nil, 1, 1) }(), []int{8}, "a 2→6 grow", "room for 4 of 6"},
		"capacity: replacements of a leaving node come first": {
			func() *Cluster {
				c := nodes(4, 4)
				c.Nodes[1].State = Draining
				return c.with("a", func(j *Job) { j.LastChange = now }, 1, 1, 1).with("b", nil)
			}(), []int{3, 4}, "b 0→1 start", "room for 1 of 4"},
		"capacity: room for others": {
			func() *Cluster { c := nodes(4); c.Reserved = map[string]int{"gpu": 2}; return c.with("a", nil, 0) }(), []int{4}, "a 1→2 grow", "room for 1 of 3"},
		"capacity: workers somewhere unknown": {nodes(4).with("a", nil, -1, -1).with("b", nil), []int{2, 4}, "b 0→2 start", ""},
		"capacity: memory runs out first": {
			func() *Cluster {
				c := nodes(8)
				c.Nodes[0].Memory = 1000
				return c.with("a", func(j *Job) { j.Groups[0].Need.Memory = 300 })
			}(), []int{8}, "a 0→3 start", ""},
		"capacity: bins of a node share its memory": {
			func() *Cluster {
				c := nodes(4)
				c.Nodes[0].Memory = 1000
				c.Nodes[0].Bins = append(c.Nodes[0].Bins, Bin{Slots: 4})
				return c.with("a", func(j *Job) { j.Groups[0].Need.Memory = 300 })
			}(), []int{8}, "a 0→3 start", ""},
		"capacity: a worker of two slots needs both in one bin": {
			nodes(3, 3).with("a", func(j *Job) { j.Groups[0].Need.Slots = 2 }), []int{3}, "a 0→2 start", "room for 2 of 3"},
		"capacity: spread": {nodes(4, 4).with("a", func(j *Job) { j.Groups[0].Spread = true }, 0), []int{4}, "a 1→2 grow", "room for 1 of 3"},

		"minimum: a running job keeps it":         {nodes(8).with("a", min4, 0, 0, 0, 0, 0, 0), []int{2}, "a 6→4 shrink", ""},
		"minimum: is not given up for nothing":    {nodes(8).with("a", min4, 0, 0, 0, 0), []int{0}, "", ""},
		"minimum: suspension goes below":          {nodes(8).with("a", preemptible, 0, 0), []int{0}, "a 2→0 suspend", ""},
		"minimum: suspension is all or nothing":   {nodes(8).with("a", func(j *Job) { j.Min, j.Preemptible = 4, true }, 0, 0, 0, 0), []int{2}, "a 4→0 suspend", ""},
		"minimum: one set too low is not touched": {nodes(8).with("a", min4, 0, 0), []int{0}, "", ""},
		"minimum: one set too low may grow":       {nodes(8).with("a", min4, 0, 0), []int{4}, "a 2→4 grow", ""},

		"maximum: of the job":            {nodes(16).with("a", func(j *Job) { j.Max = 4 }, 0), []int{9}, "a 1→4 grow", ""},
		"maximum: of the group":          {nodes(16).with("a", func(j *Job) { j.Groups[0].Max, j.Max = 3, 6 }, 0), []int{9}, "a 1→3 grow", "room for 2 of 5"},
		"gang: the minimum fits":         {nodes(4).with("a", min4), []int{8}, "a 0→4 start", "room for 4 of 8"},
		"gang: the minimum does not fit": {nodes(3).with("a", min4), []int{4}, "", "needs room for 4 more, and there is room for 3"},
		"gang: not in pieces over nodes": {nodes(3, 3).with("a", func(j *Job) { j.Min = 3; j.Groups[0].Need.Slots = 2 }), []int{3}, "", "room for 2"},
		"gang: backfill":                 {nodes(3).with("a", min4).with("b", nil), []int{4, 2}, "b 0→2 start", "needs room for 4"},

		"sizes: rounded down":                  {nodes(8).with("a", func(j *Job) { j.Sizes = sizes.List(2, 4, 8) }), []int{7}, "a 0→4 start", ""},
		"sizes: what fits is rounded down too": {nodes(6).with("a", func(j *Job) { j.Sizes = sizes.List(2, 4, 8) }, 0, 0), []int{8}, "a 2→4 grow", ""},

		"frozen: never again":                   {nodes(8).with("a", func(j *Job) { j.Frozen = "a worker has completed" }, 0), []int{4}, "", "a worker has completed"},
		"frozen: not even down":                 {nodes(8).with("a", func(j *Job) { j.Frozen = "a worker has completed" }, 0, 0), []int{1}, "", "a worker has completed"},
		"frozen: what completed gives its room": {nodes(4).with("a", func(j *Job) { j.Frozen, j.Groups[0].Count = "x", 4 }, 0).with("b", nil), []int{4, 3}, "b 0→3 start", ""},
		"frozen: nor taken back":                {nodes(8).with("a", func(j *Job) { j.Frozen, j.Groups[0].Count = "x", 4; j.PendingSince = now.Add(-time.Hour) }, 0), []int{4}, "", ""},
		"held":                                  {nodes(8).with("a", func(j *Job) { j.HoldReason = "paused" }, 0), []int{4}, "", "paused"},

		"hold: resized just now":      {nodes(8).with("a", func(j *Job) { j.LastChange = now.Add(-29 * time.Second) }, 0), []int{4}, "", "resized just now"},
		"hold: shrinks wait too":      {nodes(8).with("a", func(j *Job) { j.LastChange = now.Add(-29 * time.Second) }, 0, 0), []int{1}, "", "resized just now"},
		"hold: over":                  {nodes(8).with("a", func(j *Job) { j.LastChange = now.Add(-30 * time.Second) }, 0), []int{4}, "a 1→4 grow", ""},
		"hold: a suspended job waits": {nodes(8).with("a", func(j *Job) { j.LastChange, j.Started = now, true }), []int{4}, "", "resized just now"},
		"hold: an unhealthy node":     {nodes(8).with("a", func(j *Job) { j.UnhealthyReason = "node b is down" }, 0), []int{4}, "", "node b is down"},
		"hold: set by hand":           {nodes(8).with("a", func(j *Job) { j.ManualUntil = now.Add(time.Second) }, 0), []int{4}, "", "by hand"},
		"hold: hand's time is over":   {nodes(8).with("a", func(j *Job) { j.ManualUntil = now }, 0), []int{4}, "a 1→4 grow", ""},

		"take back: too early": {nodes(8).with("a", func(j *Job) { j.Groups[0].Count = 4; j.PendingSince = now.Add(-29 * time.Second) }, 0, 0), []int{4}, "", ""},
		"take back: in time":   {nodes(8).with("a", func(j *Job) { j.Groups[0].Count = 4; j.PendingSince = now.Add(-30 * time.Second) }, 0, 0), []int{4}, "a 4→2 rollback", ""},
		"take back: a gang that half started goes back to none": {
			nodes(8).with("a", func(j *Job) {
				j.Min, j.Incomplete, j.Groups[0].Count = 4, true, 4
				j.PendingSince = now.Add(-time.Minute)
			}, 0, 0), []int{4}, "a 4→0 rollback", ""},
		"take back: a started job keeps its minimum": {
			nodes(8).with("a", func(j *Job) { j.Min, j.Groups[0].Count = 3, 6; j.PendingSince = now.Add(-time.Minute) }, 0, 0), []int{6}, "a 6→3 rollback", ""},
		"take back: no growth for a while": {nodes(8).with("a", func(j *Job) { j.Groups[0].GrowAfter = now.Add(time.Minute) }, 0), []int{4}, "", "found no place"},

		"keep: early enough":        {nodes(1).with("x", nil, 0).with("a", func(j *Job) { j.KeepUntil = now.Add(2 * time.Hour) }), []int{1, 1}, "", "needs room"},
		"keep: in time":             {nodes(1).with("x", nil, 0).with("a", func(j *Job) { j.KeepUntil = now.Add(time.Hour) }), []int{1, 1}, "a 0→0 keep", "needs room"},
		"keep: not one that starts": {nodes(1).with("a", func(j *Job) { j.KeepUntil = now }), []int{1}, "a 0→1 start", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.cluster.plan(tc.want...)
			must.Eq(t, tc.drawing, p.drawing())
			if tc.waits != "" {
				must.SliceNotEmpty(t, p.Waits)
				must.StrContains(t, p.Waits[0].Why, tc.waits)
			}
		})
	}
}

func TestMake_ConditionalOnTheIndex(t *testing.T) {
	p := nodes(4).with("a", nil).with("b", nil).plan(1, 1)
	must.Eq(t, 100, p.Actions[0].Index)
	must.Eq(t, 101, p.Actions[1].Index)
}

func TestMake_ShrinksAreWrittenFirst(t *testing.T) {
	c := nodes(4, 4).with("late", nil, 0).with("fat", nil, 1, 1, 1, 1)
	c.Jobs[0].Pool, c.Nodes[0].Pool = "other", "other"
	c.Jobs[0].Groups[0].Class = c.class(0)
	must.Eq(t, "fat 4→1 shrink, late 1→3 grow", c.plan(3, 1).drawing())
}

func TestMake_RequeueAt(t *testing.T) {
	p := nodes(8).with("a", func(j *Job) { j.LastChange = now.Add(-10 * time.Second) }, 0).
		with("b", func(j *Job) { j.ManualUntil = now.Add(15 * time.Second) }, 0).plan(4, 4)
	must.Eq(t, now.Add(15*time.Second), p.RequeueAt)
	must.True(t, nodes(1).plan().RequeueAt.IsZero())
}

func TestMake_MaxWrites(t *testing.T) {
	c := nodes(4).with("a", nil).with("b", nil).with("c", nil)
	wants := []Want{{Count: 1}, {Count: 1}, {Count: 1}}
	o := DefaultOptions()
	o.MaxWrites = 2
	p := Make(c, wants, now, o)
	must.Len(t, 2, p.Actions)
	must.True(t, p.RequeueAt.After(now))
}

// A job is tried in each of its groups and finds no room: one group may not grow yet. Its
// nodes are left to another job, which starts.
func TestMake_ATrialLeavesRoomToOthers(t *testing.T) {
	c := nodes(4)
	wide, shared := c.class(0), c.class(0)
	one := placement.Need{Slots: 1}
	c.Jobs = []Job{
		{Key: identity.JobKey{Namespace: "default", ID: "wide"}, Pool: "gpu", Index: 7, Min: 8, Max: 16, Groups: []Group{
			{Name: "g0", Max: 16, Need: one, Class: wide},
			{Name: "g1", Max: 16, Need: one, Class: shared, GrowAfter: now.Add(time.Hour)},
		}},
		{Key: identity.JobKey{Namespace: "default", ID: "small"}, Pool: "gpu", Index: 8, Min: 1, Max: 4, Groups: []Group{
			{Name: "workers", Max: 4, Need: one, Class: shared},
		}},
	}
	must.Eq(t, "small 0→4 start", c.plan(8, 4).drawing())
}
