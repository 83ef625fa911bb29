// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// inRacks adds a job with one group per rack, bound to it, and the given workers in each.
// A rack has one node. Racks 0 and 1 share a block, 2 and 3 the next, and so on.
func (c *Cluster) inRacks(id string, edit func(*Job), workers ...int) *Cluster {
	j := Job{
		Key: identity.JobKey{Namespace: "default", ID: id}, Pool: "gpu", Index: uint64(100 + len(c.Jobs)), Min: 1, Max: 64, Locality: &Locality{},
	}
	for r, n := range workers {
		g := Group{Name: fmt.Sprint("r", r), Count: n, Max: 64, Need: placement.Need{Slots: 1}, Class: c.class(r), Path: []int{r / 2, r}}
		for range n {
			g.Live = append(g.Live, Worker{Place: placement.Place{Node: r}})
			j.Started = true
		}
		j.Groups = append(j.Groups, g)
	}
	if edit != nil {
		edit(&j)
	}
	c.Jobs = append(c.Jobs, j)
	return c
}

// rackOnly makes a job stay in one rack.
func rackOnly(j *Job) {
	j.Locality = &Locality{Rule: placement.Rule{Within: 2}, Level: "meta.rack"}
}

// fasterApart makes the steps of a job take a tenth less time for each group that it is in.
func fasterApart(j *Job) {
	groups := func(counts []int) (n float64) {
		for _, k := range counts {
			n += float64(min(1, k))
		}
		return n
	}
	j.Locality.Faster = func(counts, elsewhere []int) float64 { return 1 - 0.1*(groups(counts)-groups(elsewhere)) }
}

// TestMake_Domains checks where workers are placed in a pool with a topology.
func TestMake_Domains(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster *Cluster
		want    []int
		drawing string
		waits   string
	}{
		"starts in the smallest rack that holds it": {
			nodes(8, 4, 6, 8).inRacks("a", nil, 0, 0, 0, 0), []int{4}, "a 0→4 start r1:0→4", ""},
		"in one block where no rack does": {
			nodes(8, 8, 8, 2).inRacks("a", nil, 0, 0, 0, 0), []int{10}, "a 0→10 start r3:0→2 r2:0→8", ""},
		"over blocks where no block does": {
			nodes(4, 4, 4, 2).inRacks("a", nil, 0, 0, 0, 0), []int{12}, "a 0→12 start r0:0→4 r1:0→4 r2:0→4", ""},
		"grows where it is": {
			nodes(8, 8, 8, 8).inRacks("a", nil, 0, 2, 0, 0), []int{4}, "a 2→4 grow r1:2→4", ""},
		"grows in its block": {
			nodes(8, 2, 3, 8).inRacks("a", nil, 0, 2, 0, 0), []int{4}, "a 2→4 grow r0:0→2", ""},
		"leaves a rack as a whole": {
			nodes(8, 8, 8, 8).inRacks("a", nil, 1, 3, 0, 4), []int{4}, "a 8→4 shrink r1:3→0 r0:1→0", ""},
		"leaves the block with less": {
			nodes(8, 8, 8, 8).inRacks("a", nil, 2, 2, 3, 0), []int{4}, "a 7→4 shrink r2:3→0", ""},
		"starts apart where steps are known to be faster so": {
			nodes(4, 4, 4, 4).inRacks("a", fasterApart, 0, 0, 0, 0), []int{2}, "a 0→2 start r0:0→1 r1:0→1", ""},
		"grows apart where steps are known to be faster so": {
			nodes(4, 4, 4, 4).inRacks("a", fasterApart, 0, 2, 0, 0), []int{3}, "a 2→3 grow r0:0→1", ""},
		"leaves apart those whose steps are known to be faster so": {
			nodes(4, 4).inRacks("a", fasterApart, 2, 2), []int{2}, "a 4→2 shrink r0:2→1 r1:2→1", ""},
		"apart in a pool that prefers to empty nodes": {
			func() *Cluster {
				c := nodes(4, 4, 4, 4).inRacks("a", fasterApart, 0, 0, 0, 0).inRacks("b", nil, 0, 0, 1, 1)
				c.Packed = map[string]bool{"gpu": true}
				return c
			}(), []int{2, 2}, "a 0→2 start r2:0→1 r3:0→1", ""},
		"required: one rack, even where steps would be faster apart": {
			nodes(4, 4, 4, 4).inRacks("a", func(j *Job) { rackOnly(j); fasterApart(j) }, 0, 0, 0, 0), []int{2}, "a 0→2 start r0:0→2", ""},
		"what has no place goes first": {
			nodes(8, 8).inRacks("a", func(j *Job) { j.Groups[1].Count = 6 }, 2, 4), []int{4}, "a 8→4 shrink r0:2→0 r1:6→4", ""},
		"the next job has what is left": {
			nodes(4, 4, 4, 4).inRacks("a", nil, 0, 0, 0, 0).inRacks("b", nil, 0, 0, 0, 0), []int{3, 4}, "a 0→3 start r0:0→3, b 0→4 start r1:0→4", ""},
		"no more than the pool has left for it": {
			func() *Cluster {
				c := nodes(4, 4).inRacks("a", nil, 0, 0)
				c.Reserved = map[string]int{"gpu": 3}
				return c
			}(), []int{8}, "a 0→5 start r1:0→1 r0:0→4", "room for 5 of 8 more"},
		"required: one rack": {
			nodes(6, 6, 2, 2).inRacks("a", func(j *Job) { rackOnly(j); j.Min = 4 }, 0, 0, 0, 0), []int{8},
			"a 0→6 start r0:0→6", "room for 6 of 8 more within one meta.rack"},
		"required: held with the reason": {
			nodes(6, 6, 6, 6).inRacks("a", func(j *Job) { rackOnly(j); j.Min = 8 }, 0, 0, 0, 0), []int{8},
			"", "needs room for 8 more within one meta.rack, and there is room for 6"},
		"required: does not grow across": {
			nodes(4, 8).inRacks("a", rackOnly, 4, 0), []int{6}, "", "needs room for 1 more within one meta.rack, and there is room for 0"},
		"required: moves as a whole where its rack has closed": {
			func() *Cluster {
				c := nodes(4, 4).inRacks("a", func(j *Job) { rackOnly(j); j.PendingSince = now.Add(-time.Minute) }, 0, 0)
				c.Nodes[0].State, c.Jobs[0].Groups[0].Count = Ineligible, 3
				return c
			}(), []int{3}, "a 3→3 move r0:3→0 r1:0→3", ""},
		"required: not while its minimum waits elsewhere": {
			func() *Cluster {
				c := nodes(4, 2).inRacks("a", func(j *Job) {
					rackOnly(j)
					j.Min, j.Groups[0].Live, j.PendingSince = 4, nil, now.Add(-time.Minute)
				}, 4, 0)
				c.Nodes[0].State = Draining
				return c
			}(), []int{4}, "", ""},
		"required: rolled back where another rack has room for a part": {
			nodes(0, 2).inRacks("a", func(j *Job) {
				rackOnly(j)
				j.Min, j.Groups[0].Live, j.PendingSince = 4, nil, now.Add(-time.Hour)
			}, 6, 0), []int{6}, "a 6→4 rollback r0:6→4", ""},
		"required: comes back into one rack as it shrinks, even where steps would be faster apart": {
			nodes(4, 4).inRacks("a", func(j *Job) { rackOnly(j); fasterApart(j) }, 3, 1), []int{2}, "a 4→2 shrink r0:3→2 r1:1→0", ""},
		"as many as find room, though not apart": {
			func() *Cluster {
				c := nodes(6, 4, 1, 0).inRacks("a", func(j *Job) { fasterApart(j); j.Min, j.Max = 8, 8 }, 0, 0, 0, 0)
				for g, on := range [][]int{{0}, {1}, {0, 1}, {1}} {
					group := &c.Jobs[0].Groups[g]
					group.Class, group.Max, group.Path = c.class(on...), []int{2, 2, 2, 4}[g], nil
					if len(on) == 1 {
						group.Path = []int{0, on[0]}
					}
				}
				return c
			}(), []int{8}, "a 0→8 start r0:0→2 r2:0→2 r3:0→4", ""},
		"required: not in part": {
			nodes(4, 4).inRacks("a", func(j *Job) {
				rackOnly(j)
				j.PendingSince, j.Groups[0].Count = now.Add(-time.Minute), 6
			}, 4, 0), []int{6}, "a 6→4 rollback r0:6→4", ""},
		"groups that share nodes": {
			nodes(4, 4).inRacks("a", func(j *Job) {
				j.Groups = append(j.Groups, j.Groups[1])
				j.Groups[2].Name = "again"
			}, 0, 0), []int{6}, "a 0→6 start r1:0→2 r0:0→4", ""},
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
