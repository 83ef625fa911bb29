// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// onNodes adds a job with one group per node, bound to it, and the given workers in each.
func (c *Cluster) onNodes(id string, edit func(*Job), workers ...int) *Cluster {
	return c.inRacks(id, func(j *Job) {
		j.Locality = nil
		for g := range j.Groups {
			j.Groups[g].Name = fmt.Sprint("n", g)
		}
		if edit != nil {
			edit(j)
		}
	}, workers...)
}

// packing makes all pools of the cluster pack.
func (c *Cluster) packing() *Cluster {
	c.Packed = map[string]bool{"gpu": true}
	return c
}

// TestMake_Pack compares the plans of a pool that prefers to empty nodes with those of a
// pool that does not.
func TestMake_Pack(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster       func() *Cluster
		want          []int
		drawing, pack string
	}{
		// The drawing of the end-to-end test.
		"leaves the node that becomes empty": {func() *Cluster {
			return nodes(4, 4).onNodes("a", nil, 3, 2).onNodes("b", nil, 0, 2)
		}, []int{2, 2}, "a 5→2 shrink n1:2→0 n0:3→2", "a 5→2 shrink n0:3→0"},
		"as many nodes as it can": {func() *Cluster {
			return nodes(4, 4, 4, 4).onNodes("a", nil, 4, 1, 2, 3).onNodes("b", nil, 0, 1, 0, 0)
		}, []int{5, 1}, "a 10→5 shrink n2:2→0 n3:3→1 n1:1→0", "a 10→5 shrink n3:3→0 n2:2→0"},
		"the node with fewest workers where none becomes empty": {func() *Cluster {
			return nodes(8, 8).onNodes("a", nil, 3, 4).onNodes("b", nil, 4, 1)
		}, []int{5, 5}, "a 7→5 shrink n0:3→1", "a 7→5 shrink n1:4→2"},
		"a group that must stay keeps its node": {func() *Cluster {
			return nodes(4, 4).onNodes("a", func(j *Job) { j.Groups[0].Min = 1 }, 2, 3).onNodes("b", nil, 0, 1)
		}, []int{3, 1}, "a 5→3 shrink n0:2→1 n1:3→2", "a 5→3 shrink n0:2→1 n1:3→2"},
		"what another job leaves counts as left": {func() *Cluster {
			return nodes(4, 4).onNodes("a", func(j *Job) { j.Preemptible = true }, 1, 0).onNodes("b", nil, 3, 2).onNodes("c", nil, 0, 1)
		}, []int{0, 2, 1}, "a 1→0 suspend n0:1→0, b 5→2 shrink n1:2→0 n0:3→2", "a 1→0 suspend n0:1→0, b 5→2 shrink n0:3→0"},
		"grows on nodes in use": {func() *Cluster {
			return nodes(8, 4, 8).onNodes("b", nil, 0, 1, 0).onNodes("a", nil, 0, 0, 0)
		}, []int{1, 3}, "a 0→3 start n0:0→3", "a 0→3 start n1:0→3"},
		"is kept together where they do not hold it": {func() *Cluster {
			return nodes(8, 4, 8).onNodes("b", nil, 0, 1, 0).onNodes("a", nil, 0, 0, 0)
		}, []int{1, 5}, "a 0→5 start n0:0→5", "a 0→5 start n0:0→5"},
		"the rest goes to nodes in use": {func() *Cluster {
			return nodes(8, 8, 4).onNodes("b", nil, 0, 0, 1).onNodes("a", nil, 0, 0, 0)
		}, []int{1, 10}, "a 0→10 start n1:0→2 n0:0→8", "a 0→10 start n2:0→2 n0:0→8"},
		"the next job finds them in use": {func() *Cluster {
			return nodes(4, 6).onNodes("a", nil, 0, 0).onNodes("b", nil, 0, 0)
		}, []int{5, 1}, "a 0→5 start n1:0→5, b 0→1 start n0:0→1", "a 0→5 start n1:0→5, b 0→1 start n1:0→1"},
		"locality goes first: domains as wholes": {func() *Cluster {
			return nodes(8, 8, 8, 8).inRacks("a", nil, 3, 3, 4, 0).inRacks("b", nil, 1, 1, 0, 0)
		}, []int{6, 2}, "a 10→6 shrink r2:4→0", "a 10→6 shrink r2:4→0"},
		"locality: of equal ones the empty one": {func() *Cluster {
			return nodes(8, 8).inRacks("a", nil, 2, 2).inRacks("b", nil, 1, 0)
		}, []int{2, 1}, "a 4→2 shrink r0:2→0", "a 4→2 shrink r1:2→0"},
		"locality: starts in the smallest, in use or not": {func() *Cluster {
			return nodes(4, 8).inRacks("b", nil, 0, 1).inRacks("a", nil, 0, 0)
		}, []int{1, 4}, "a 0→4 start r0:0→4", "a 0→4 start r0:0→4"},
		"locality: of equal ones that in use": {func() *Cluster {
			return nodes(4, 5).inRacks("b", nil, 0, 1).inRacks("a", nil, 0, 0)
		}, []int{1, 2}, "a 0→2 start r0:0→2", "a 0→2 start r1:0→2"},
		"required: stays within": {func() *Cluster {
			return nodes(6, 4).inRacks("b", nil, 1, 0).inRacks("a", rackOnly, 0, 2)
		}, []int{1, 5}, "a 2→4 grow r1:2→4", "a 2→4 grow r1:2→4"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, tc.drawing, tc.cluster().plan(tc.want...).drawing())
			must.Eq(t, tc.pack, tc.cluster().packing().plan(tc.want...).drawing())
		})
	}
}

// leftEmpty counts nodes that have workers and lose all of them by a plan.
func (c *Cluster) leftEmpty(p Plan) int {
	counts := map[string]int{}
	for j := range c.Jobs {
		for _, g := range c.Jobs[j].Groups {
			counts[c.Jobs[j].Key.ID+"/"+g.Name] = g.Count
		}
	}
	for _, a := range p.Actions {
		for _, s := range a.Steps {
			counts[a.Job.ID+"/"+s.Group] = s.To
		}
	}
	had, have := make([]bool, len(c.Nodes)), make([]bool, len(c.Nodes))
	for j := range c.Jobs {
		for _, g := range c.Jobs[j].Groups {
			for k, w := range g.Live {
				had[w.Node] = true
				have[w.Node] = have[w.Node] || k < counts[c.Jobs[j].Key.ID+"/"+g.Name]
			}
		}
	}
	n := 0
	for i := range had {
		if had[i] && !have[i] {
			n++
		}
	}
	return n
}

// TestProperty_Pack has jobs with each group bound to one node. Shrinking empties as many
// nodes as any other way to shrink to that size. Packing changes the place of workers, and
// never their number.
func TestProperty_Pack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 6).Draw(t, "slots")
		draw := func(name string, free []int) []int {
			out := make([]int, len(free))
			for i := range out {
				out[i] = rapid.IntRange(0, free[i]).Draw(t, name)
				free[i] -= out[i]
			}
			return out
		}
		free := slices.Clone(slots)
		a, b := draw("a", free), draw("b", free)
		make := func() *Cluster { return nodes(slots...).onNodes("a", nil, a...).onNodes("b", nil, b...) }
		from := 0
		for _, n := range a {
			from += n
		}
		to := rapid.IntRange(1, 40).Draw(t, "to")
		keep := make().Jobs[1].Count()
		plain, packed := make().plan(to, keep), make().packing().plan(to, keep)
		if len(plain.Actions) != len(packed.Actions) || len(plain.Actions) > 0 && plain.Actions[0].To != packed.Actions[0].To {
			t.Fatalf("packing changes how many: %+v, not %+v", packed, plain)
		}
		if to >= from {
			return
		}
		// The nodes that a has for itself, the fewest workers first.
		var alone []int
		for i, n := range a {
			if n > 0 && b[i] == 0 {
				alone = append(alone, n)
			}
		}
		slices.Sort(alone)
		best, left := 0, from-to
		for _, n := range alone {
			if n <= left {
				best, left = best+1, left-n
			}
		}
		if got := make().leftEmpty(packed); got != best {
			t.Fatalf("%d nodes are left empty, want %d: %s", got, best, packed.drawing())
		}
	})
}

// A group on several nodes is ordered by its workers per node.
func TestEmptying_GroupsOfSeveralNodes(t *testing.T) {
	c := nodes(4, 4, 4).packing()
	group := func(name string, on ...int) Group {
		g := Group{Name: name, Count: len(on), Max: 8, Need: placement.Need{Slots: 1}, Class: c.class(on...)}
		for _, n := range on {
			g.Live = append(g.Live, Worker{Place: placement.Place{Node: n}})
		}
		return g
	}
	c.with("a", func(j *Job) {
		j.Started, j.Max = true, 16
		j.Groups = []Group{group("wide", 0, 0, 1, 1), group("narrow", 2, 2, 2)}
	})
	must.Eq(t, "a 7→3 shrink wide:4→0", c.plan(3).drawing())
	must.Eq(t, "a 7→4 shrink narrow:3→0", c.plan(4).drawing())
}
