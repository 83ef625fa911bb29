// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// racks has sets of nodes that groups are bound to: set 0 has the even nodes, 1 the odd
// ones, 2 all.
type racks struct {
	*Cluster
	classes [3]*Class
	of      map[*Class]int
}

func drawRacks(t *rapid.T) *racks {
	r := &racks{Cluster: &Cluster{}, of: map[*Class]int{}}
	for i := range r.classes {
		r.classes[i] = &Class{}
		r.of[r.classes[i]] = i
	}
	for i, n := range rapid.SliceOfN(rapid.IntRange(0, 6), 2, 6).Draw(t, "slots") {
		state := NodeState(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "state"))
		r.Nodes = append(r.Nodes, Node{ID: strconv.Itoa(i), Pool: "gpu", State: state, Bins: []Bin{{Slots: n}}})
		for _, c := range []int{i % 2, 2} {
			r.classes[c].Places = append(r.classes[c].Places, placement.Place{Node: i})
		}
	}
	if rapid.Bool().Draw(t, "pack") {
		r.Packed = map[string]bool{"gpu": true}
	}
	used := make([]int, len(r.Nodes))
	for j := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		job := Job{
			Key: identity.JobKey{Namespace: "default", ID: fmt.Sprint("j", j)}, Pool: "gpu", Index: uint64(j + 1), Min: rapid.IntRange(1, 3).Draw(t, "min"),
			Preemptible: rapid.Bool().Draw(t, "preemptible"), LastChange: now.Add(-time.Hour),
		}
		job.Max = job.Min + rapid.IntRange(0, 8).Draw(t, "extra")
		if rapid.Bool().Draw(t, "waiting long") {
			job.PendingSince = now.Add(-time.Hour)
		} else {
			job.PendingSince = now
		}
		switch rapid.IntRange(0, 3).Draw(t, "locality") {
		case 0:
			job.Locality = &Locality{}
		case 1:
			job.Locality = &Locality{Rule: placement.Rule{Within: 1}, Level: "meta.rack"}
		}
		if job.Locality != nil && rapid.Bool().Draw(t, "faster apart") {
			fasterApart(&job)
		}
		switch rapid.IntRange(0, 6).Draw(t, "hands off") {
		case 0:
			job.Frozen = "x"
		case 1:
			job.HoldReason = "x"
		case 2:
			job.ManualUntil = now.Add(time.Minute)
		}
		for g := range rapid.IntRange(1, 3).Draw(t, "groups") {
			set := rapid.IntRange(0, 2).Draw(t, "class")
			class := r.classes[set]
			group := Group{Name: fmt.Sprint("g", g), Max: rapid.IntRange(1, 8).Draw(t, "group's max"), Need: placement.Need{Slots: 1}, Class: class}
			if set < 2 {
				group.Path = []int{set}
			}
			for range rapid.IntRange(0, 4).Draw(t, "workers") {
				at := rapid.SampledFrom(class.Places).Draw(t, "place")
				if used[at.Node] < r.Nodes[at.Node].Bins[0].Slots {
					used[at.Node]++
					group.Live = append(group.Live, Worker{Place: at, Ending: rapid.IntRange(0, 4).Draw(t, "ending") == 0})
					job.Started = true
				}
			}
			group.Count = min(group.Max, max(0, len(group.Live)+rapid.IntRange(-1, 3).Draw(t, "more")))
			if rapid.IntRange(0, 3).Draw(t, "failed") == 0 {
				group.GrowAfter = now.Add(time.Minute)
			}
			job.Groups = append(job.Groups, group)
		}
		r.Jobs = append(r.Jobs, job)
	}
	return r
}

// demand returns how many workers are on ready nodes of a set, or can be placed nowhere
// else.
func (r *racks) demand(set int) int {
	n := 0
	for j := range r.Jobs {
		for g := range r.Jobs[j].Groups {
			group := &r.Jobs[j].Groups[g]
			for _, w := range group.Live {
				if r.Nodes[w.Node].State == Ready && (set == 2 || w.Node%2 == set) {
					n++
				}
			}
			if at := r.of[group.Class]; set == 2 || at == set {
				n += r.pending(j, g)
			}
		}
	}
	return n
}

func (r *racks) capacity(set int) int {
	n := 0
	for i := range r.Nodes {
		if r.Nodes[i].State == Ready && (set == 2 || i%2 == set) {
			n += r.Nodes[i].Bins[0].Slots
		}
	}
	return n
}

// crosses reports whether a job has or is to have workers in more than one part. A part is
// a set, and a group that goes anywhere is in any of them.
func (r *racks) crosses(job *Job) bool {
	at := -1
	for g := range job.Groups {
		if job.Groups[g].Count == 0 {
			continue
		}
		set := r.of[job.Groups[g].Class]
		if set == 2 || at >= 0 && at != set {
			return true
		}
		at = set
	}
	return false
}

// TestProperty_Groups has jobs with several groups, bound to parts of a cluster in any
// state. They never get more slots than each part has. Workers move only from groups in
// which they wait to groups with room. A job that must not cross parts does not begin to.
func TestProperty_Groups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRacks(t)
		wants := make([]Want, len(r.Jobs))
		for j := range wants {
			wants[j].Count = rapid.IntRange(0, 12).Draw(t, "want")
		}
		var before [3]int
		for set := range before {
			before[set] = r.demand(set)
		}
		p := Make(r.Cluster, wants, now, DefaultOptions())
		seen := map[identity.JobKey]bool{}
		for _, a := range p.Actions {
			j := slices.IndexFunc(r.Jobs, func(job Job) bool { return job.Key == a.Job })
			job := &r.Jobs[j]
			switch {
			case seen[a.Job]:
				t.Fatalf("two actions for one job: %+v", p.Actions)
			case job.Frozen != "" || job.HoldReason != "" || job.ManualUntil.After(now):
				t.Fatalf("changed a job that is held: %+v", a)
			case a.To > job.Max && a.To > a.From:
				t.Fatalf("above the maximum %d: %+v", job.Max, a)
			case a.Cause == Move && a.To > a.From:
				t.Fatalf("a move that grows: %+v", a)
			case a.To > 0 && a.To < job.Min && a.To < a.From && a.Cause != Shrink:
				t.Fatalf("below the minimum %d: %+v", job.Min, a)
			}
			seen[a.Job] = true
			total, crossed := 0, r.crosses(job)
			for _, s := range a.Steps {
				g := slices.IndexFunc(job.Groups, func(g Group) bool { return g.Name == s.Group })
				group := &job.Groups[g]
				switch {
				case s.From != group.Count:
					t.Fatalf("%+v begins at %d, and %s has %d", a, s.From, s.Group, group.Count)
				case s.To > s.From && (group.GrowAfter.After(now) || s.To > group.Max):
					t.Fatalf("%s must not grow to %d: %+v", s.Group, s.To, a)
				case a.Cause == Move && s.To < s.From && s.From-s.To > r.pending(j, g):
					t.Fatalf("moved workers that have a place: %+v", a)
				}
				group.Count = s.To
			}
			for g := range job.Groups {
				total += job.Groups[g].Count
			}
			if job.Locality != nil && job.Locality.Within > 0 && !crossed && r.crosses(job) && a.Cause != Move {
				t.Fatalf("%+v crosses parts, which the job must not", a)
			}
			if total != a.To {
				t.Fatalf("the steps of %+v come to %d", a, total)
			}
		}
		for set := range before {
			if after, have := r.demand(set), r.capacity(set); after > max(have, before[set]) {
				t.Fatalf("part %d has %d slots; %d workers were to be there, and are %d after %+v", set, have, before[set], after, p.Actions)
			}
		}
	})
}
