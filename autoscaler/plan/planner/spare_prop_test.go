// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// oneNode is a node with some jobs whose workers start at once, and end in the next round.
type oneNode struct {
	slots, lends int
	now          time.Time
	jobs         []Job
	counts       []int // of the workers that train
	spares       []int
	ending       []int
}

func newOneNode(slots, lends int, kinds []Job) *oneNode {
	return &oneNode{slots: slots, lends: lends, now: now, jobs: kinds, counts: make([]int, len(kinds)), spares: make([]int, len(kinds)), ending: make([]int, len(kinds))}
}

// see returns what the planner sees.
func (n *oneNode) see() *Cluster {
	c := nodes(n.slots)
	c.Lends = map[string]int{"gpu": n.lends}
	for j := range n.jobs {
		job := n.jobs[j]
		group := Group{Name: "workers", Count: n.counts[j] + n.spares[j], Max: n.slots + 2, Need: placement.Need{Slots: 1}, Class: c.class()}
		for i := range group.Count + n.ending[j] {
			group.Live = append(group.Live, Worker{Ending: i >= group.Count})
		}
		job.Key, job.Pool, job.Min, job.Max, job.Preemptible = identity.JobKey{ID: strconv.Itoa(j)}, "gpu", 1, n.slots, true
		job.Started, job.Groups = !job.LastChange.IsZero(), []Group{group}
		c.Jobs = append(c.Jobs, job)
		c.SeparateSpares(j, map[string]int{"workers": n.spares[j]})
	}
	return c
}

// round carries out a plan for the wants.
func (n *oneNode) round(t *rapid.T, wants []int) {
	c := n.see()
	list := make([]Want, len(wants))
	for j := range wants {
		list[j].Count = wants[j]
	}
	o := DefaultOptions()
	o.Hold = 0
	p := Make(c, list, n.now, o)
	clear(n.ending)
	for _, a := range p.Actions {
		j := c.job(a.Job.ID)
		before := n.counts[j] + n.spares[j]
		if a.Cause != Spare {
			n.jobs[j].LastChange = n.now
		}
		if s, stated := a.Spares["workers"]; stated {
			if s < n.spares[j] {
				n.jobs[j].SpareGiven = n.now
			}
			n.spares[j] = s
		}
		n.counts[j] = a.To
		n.ending[j] = max(0, before-n.counts[j]-n.spares[j])
	}
	used, lent := 0, 0
	for j := range n.jobs {
		used += n.counts[j] + n.spares[j] + n.ending[j]
		if n.jobs[j].Lent {
			lent += n.spares[j]
		}
	}
	if used > n.slots {
		t.Fatalf("%d slots are used of %d: %+v", used, n.slots, p)
	}
	if lent > n.lends {
		t.Fatalf("%d slots are lent of %d: %+v", lent, n.lends, p)
	}
	n.now = n.now.Add(20 * time.Second)
}

// TestProperty_SparesDelayNoOne runs the same jobs with spares and without any. After three rounds,
// in which workers end, each job has what it wants in both.
func TestProperty_SparesDelayNoOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, jobs := rapid.IntRange(1, 12).Draw(t, "slots"), rapid.IntRange(1, 4).Draw(t, "jobs")
		kinds := make([]Job, jobs)
		for j := range kinds {
			kinds[j].Priority = rapid.IntRange(50, 52).Draw(t, "priority")
			kinds[j].Lent = rapid.Bool().Draw(t, "lent")
			kinds[j].Spare = 1
			if !kinds[j].Lent {
				kinds[j].Spare = rapid.IntRange(0, 2).Draw(t, "spare")
			}
		}
		with := newOneNode(slots, rapid.IntRange(0, 3).Draw(t, "lends"), kinds)
		without := newOneNode(slots, 0, make([]Job, jobs))
		for range rapid.IntRange(1, 6).Draw(t, "decisions") {
			wants, left := make([]int, jobs), slots
			for j := range wants {
				wants[j] = rapid.IntRange(0, left).Draw(t, "want")
				left -= wants[j]
			}
			for range 3 {
				with.round(t, wants)
				without.round(t, wants)
			}
			must.Eq(t, wants, without.counts)
			must.Eq(t, wants, with.counts)
			for range rapid.IntRange(0, 8).Draw(t, "quiet rounds") {
				with.round(t, wants)
				without.round(t, wants)
				must.Eq(t, wants, with.counts)
			}
		}
	})
}
