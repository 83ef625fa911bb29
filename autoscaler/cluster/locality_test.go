// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// rackFixture is a pool of two racks of one node each, and a node without one.
func rackFixture(t *testing.T) *fixture {
	f := newFixture(t)
	f.pools["cpu"] = config.Pool{Name: "cpu", CPUSlot: 1000, Levels: levelsOf(t, "meta.rack"), Aware: true}
	for i, meta := range []string{`{"rack":"r1"}`, `{"rack":"r2"}`, `{}`} {
		id := fmt.Sprint("n", i+1)
		f.node(id, "cpu", "")
		f.detail(id, meta)
	}
	return f
}

// ask replaces a job's kolo block, and puts the job in.
func (f *fixture) ask(j *api.Job, block map[string]any) {
	f.index++
	j.ModifyIndex = new(f.index)
	j.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []any{block}}
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: *j.ID}, j))
}

func TestView_Locality(t *testing.T) {
	f := rackFixture(t)
	racks := []groupSpec{{"a", 0, "", 0, "r1"}, {"b", 0, "", 0, "r2"}}
	f.job("plain", "cpu", racks...)
	f.ask(f.job("blind", "cpu", racks...), map[string]any{"locality": "none"})
	f.ask(f.job("rack", "cpu", racks...), map[string]any{"locality": "require", "level": "meta.rack"})
	f.ask(f.job("near", "cpu", groupSpec{"w", 0, "", 0, ""}), map[string]any{"level": "meta.rack"})
	v := f.view()
	must.SliceEmpty(t, v.Ineligible)
	must.Eq(t, &planner.Locality{}, v.Jobs[0].Locality)
	must.Eq(t, []int{0, 0}, v.Jobs[0].Groups[0].Path, must.Sprint("rack and node"))
	must.Eq(t, []int{1, 1}, v.Jobs[0].Groups[1].Path)
	must.Nil(t, v.Jobs[1].Locality)
	must.Eq(t, []int{0, 0}, v.Jobs[1].Groups[0].Path, must.Sprint("others may need its place"))
	must.Eq(t, &planner.Locality{Rule: placement.Rule{Levels: 1, Within: 1}, Level: "meta.rack"}, v.Jobs[2].Locality)
	must.Eq(t, &planner.Locality{Rule: placement.Rule{Levels: 1}, Level: "meta.rack"}, v.Jobs[3].Locality)
	must.Nil(t, v.Jobs[3].Groups[0].Path, must.Sprint("it goes to both racks"))

	t.Log("a pool without a topology block has none")
	f.pools["cpu"] = config.Pool{Name: "cpu", CPUSlot: 1000, Levels: levelsOf(t, "node")}
	f.ForgetClasses()
	v = f.view()
	must.Nil(t, v.Jobs[0].Locality)
	must.Len(t, 2, v.Ineligible)
	must.StrContains(t, v.Ineligible[0].Problems.Text(), `node pool "cpu" has no topology, and so no level "meta.rack"`)
}

func TestView_LocalityProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		groups []groupSpec
		block  map[string]any
		want   string
	}{
		"a level that the pool does not have": {[]groupSpec{{"a", 0, "", 0, "r1"}}, map[string]any{"level": "meta.block"},
			`the topology of node pool "cpu" has no level "meta.block"; write one of ["meta.rack" "node"]`},
		"a group that is not bound": {[]groupSpec{{"a", 0, "", 0, "r1"}, {"b", 0, "", 0, ""}}, map[string]any{"locality": "require", "level": "meta.rack"},
			`group "b": its nodes are in several domains of meta.rack, which the job requires not to cross; bind each group to one by a constraint on ${meta.rack}`},
		"a level that its nodes do not have": {[]groupSpec{{"a", 0, "", 0, "n3"}}, map[string]any{"locality": "require", "level": "meta.rack"},
			`group "a": its nodes have no value of meta.rack`},
	} {
		t.Run(name, func(t *testing.T) {
			f := rackFixture(t)
			j := f.job("a", "cpu", tc.groups...)
			for _, g := range j.TaskGroups {
				for _, c := range g.Constraints {
					if c.RTarget == "n3" {
						c.LTarget = "${node.unique.name}"
					}
				}
			}
			f.ask(j, tc.block)
			f.job("other", "cpu", groupSpec{"w", 0, "", 0, ""})
			v := f.view()
			must.Len(t, 1, v.Jobs, must.Sprint("nothing else is disturbed"))
			must.Len(t, 1, v.Ineligible)
			must.StrContains(t, v.Ineligible[0].Problems.Text(), tc.want)
		})
	}
}

// TestView_Where checks the placement to which a job's steps are attributed.
func TestView_Where(t *testing.T) {
	for name, tc := range map[string]struct {
		counts  [2]int // asked for, in r1 and r2
		workers string // by node, and an e after one that is ending
		edit    func(*fixture)
		want    history.Where
	}{
		"all on one node":        {counts: [2]int{2, 0}, workers: "n1 n1", want: history.Where{Workers: 2}},
		"on two racks":           {counts: [2]int{2, 1}, workers: "n1 n1 n2", want: history.Where{Workers: 3, Crossing: migrate.Crossing{Level: "meta.rack", Domains: 2, Parts: 2, Most: 2}}},
		"on three nodes of two":  {counts: [2]int{3, 1}, workers: "n1 n4 n1 n2", want: history.Where{Workers: 4, Crossing: migrate.Crossing{Level: "meta.rack", Domains: 2, Parts: 3, Most: 2}}},
		"on two nodes of one":    {counts: [2]int{2, 0}, workers: "n1 n4", want: history.Where{Workers: 2, Crossing: migrate.Crossing{Level: "node", Domains: 2, Parts: 2, Most: 1}}},
		"no workers":             {},
		"one waits for a place":  {counts: [2]int{2, 1}, workers: "n1 n1"},
		"one leaves":             {counts: [2]int{1, 0}, workers: "n1 n1e"},
		"one moves":              {counts: [2]int{1, 1}, workers: "n1 n1"},
		"one is replaced":        {counts: [2]int{2, 0}, workers: "n1 n1e"},
		"on a node that is gone": {counts: [2]int{1, 0}, workers: "gone"},
		"nodes are not read yet": {counts: [2]int{1, 0}, workers: "n1", edit: func(f *fixture) { f.node("n5", "cpu", "") }},
		"the operator wrote no topology": {counts: [2]int{1, 0}, workers: "n1", edit: func(f *fixture) {
			f.pools["cpu"] = config.Pool{Name: "cpu", CPUSlot: 1000, Levels: levelsOf(t, "meta.rack")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := rackFixture(t)
			f.node("n4", "cpu", "")
			f.detail("n4", `{"rack":"r1"}`)
			f.job("a", "cpu", groupSpec{"r1", tc.counts[0], "", 0, "r1"}, groupSpec{"r2", tc.counts[1], "", 0, "r2"})
			for _, node := range strings.Fields(tc.workers) {
				at, ending := strings.CutSuffix(node, "e")
				if node == "gone" {
					at, ending = node, false
				}
				group := map[string]string{"n2": "r2"}[at]
				f.alloc("a", cmp.Or(group, "r1"), at, "running", map[bool]string{true: "stop", false: "run"}[ending])
			}
			if tc.edit != nil {
				tc.edit(f)
			}
			must.Eq(t, tc.want, f.view().Facts[0].Where)
		})
	}
}
