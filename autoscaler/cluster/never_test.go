// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	division "github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// TestView_Rigid counts the slots that jobs without a kolo block hold in a divided pool,
// for the queue of their namespace.
func TestView_Rigid(t *testing.T) {
	f := newFixture(t)
	tree, problems := division.New([]division.Queue{{Name: "team", Namespaces: []string{"default"}, Weight: division.WeightUnit}})
	must.SliceEmpty(t, problems)
	for name, pool := range f.pools {
		pool.Tree = tree
		f.pools[name] = pool
	}
	f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
	f.node("n2", "cpu", "")
	f.job("elastic", "gpu", groupSpec{"w", 1, "nvidia/gpu", 1, ""})
	f.alloc("elastic", "w", "n1", "running", "run", "H100-0")
	f.alloc("web", "x", "n1", "running", "run", "H100-1", "H100-2")
	f.alloc("web", "x", "n1", "complete", "stop", "H100-3")
	f.alloc("log", "x", "n1", "running", "run")
	for range 3 {
		f.alloc("build", "x", "n2", "running", "run")
	}
	key := func(id string) identity.JobKey { return identity.JobKey{Namespace: "default", ID: id} }
	must.Eq(t, []Rigid{{key("build"), "cpu", "team", 3}, {key("web"), "gpu", "team", 2}}, f.view().Rigid)
}

// TestView_GroupOfSpares leaves the slots of a job's spare host out of the capacity, and counts
// only the workers of the group with a kolo block.
func TestView_GroupOfSpares(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
	j := f.job("j", "gpu", groupSpec{"w", 2, "nvidia/gpu", 1, ""}, groupSpec{"spare", 1, "nvidia/gpu", 1, ""})
	j.TaskGroups[1].Scaling = nil
	for _, g := range j.TaskGroups {
		g.Tasks[0].Config = map[string]any{"spare_hosts": 1}
	}
	*j.TaskGroups[0].Scaling.Min = 1
	f.index++
	j.ModifyIndex = new(f.index)
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "j"}, j))
	f.alloc("j", "w", "n1", "running", "run", "H100-0")
	f.alloc("j", "w", "n1", "running", "run", "H100-1")
	f.alloc("j", "spare", "n1", "running", "run", "H100-2")
	v := f.view()
	must.Len(t, 1, v.Jobs, must.Sprint(v.Ineligible))
	must.Len(t, 1, v.Jobs[0].Groups)
	must.Len(t, 2, v.Jobs[0].Groups[0].Live)
	must.Eq(t, 3, v.Nodes[0].Bins[0].Slots)
}

// A gang counts in units: a unit has the slots of all its workers.
func TestView_Gang(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 8, 0}))
	j := f.job("j", "gpu", groupSpec{"w", 4, "nvidia/gpu", 1, ""}, groupSpec{"ps", 1, "nvidia/gpu", 2, ""})
	j.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []any{map[string]any{"gang": []any{"ps", "w"}, "ratio": "1:4"}}}
	f.index++
	j.ModifyIndex = new(f.index)
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "j"}, j))
	f.alloc("j", "ps", "n1", "running", "run", "H100-0", "H100-1")
	for i := range 3 {
		f.alloc("j", "w", "n1", "running", "run", fmt.Sprint("H100-", 2+i))
	}
	v := f.view()
	must.Eq(t, []int{1, 4}, v.Jobs[0].Ratio)
	must.Eq(t, "ps", v.Jobs[0].Groups[0].Name)
	must.Eq(t, 5, v.Facts[0].Unit)
	must.Eq(t, 6, v.Facts[0].Slots)
	must.Eq(t, 12, v.Facts[0].SlotsOf(10))
	must.False(t, v.Facts[0].Whole)
	f.alloc("j", "w", "n1", "running", "run", "H100-5")
	must.True(t, f.view().Facts[0].Whole)
}

// Servers without devices hold no slot of a pool that counts devices. They may run on nodes
// without any.
func TestView_GangWithoutSlots(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 8, 0}))
	f.node("n2", "gpu", "")
	servers := func(id, pool string, ask ...string) {
		j := f.job(id, pool, groupSpec{"w", 4, ask[1], len(ask[1]), ""}, groupSpec{"ps", 1, ask[0], len(ask[0]), ""})
		j.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []any{map[string]any{"gang": []any{"ps", "w"}, "ratio": "1:4"}}}
		f.index++
		j.ModifyIndex = new(f.index)
		f.putJob(newJob(identity.JobKey{Namespace: "default", ID: id}, j))
	}
	servers("j", "gpu", "", "gpu")
	f.alloc("j", "ps", "n2", "running", "run")
	for i := range 4 {
		f.alloc("j", "w", "n1", "running", "run", fmt.Sprint("H100-", i))
	}
	v := f.view()
	must.Len(t, 1, v.Jobs)
	ps, w := &v.Jobs[0].Groups[0], &v.Jobs[0].Groups[1]
	must.Eq(t, placement.Need{CPU: 1000, Memory: 100}, ps.Need)
	must.Eq(t, 3, w.Need.Slots)
	must.Eq(t, []placement.Place{{Node: 0, Bin: -1}, {Node: 1, Bin: -1}}, ps.Class.Places)
	must.Eq(t, []placement.Place{{Node: 0, Bin: 0}}, w.Class.Places)
	must.Eq(t, []planner.Worker{{Place: placement.Place{Node: 1, Bin: -1}}}, ps.Live)
	must.Eq(t, 12, v.Facts[0].Slots, must.Sprint("of a unit"))
	must.Eq(t, 12, v.Facts[0].InRatio)
	must.Eq(t, 12, v.Jobs[0].LiveSlots())
	must.True(t, v.Facts[0].Whole)
	held := map[string]int{}
	f.Allocations(func(name string) config.Pool { return f.pools[name] }, func(a *Allocation) { held[a.ID] = a.Slots })
	must.MapLen(t, 5, held)
	none := 0
	for _, n := range held {
		if n == 0 {
			none++
		}
	}
	must.Eq(t, 1, none, must.Sprint("the server is not in the account of usage"))

	t.Log("a pool that counts CPU takes no devices, and one that counts devices needs some")
	servers("of-cpu", "cpu", "", "gpu")
	servers("of-gpu", "gpu", "", "")
	v = f.view()
	must.Len(t, 2, v.Ineligible)
	must.StrContains(t, v.Ineligible[0].Problems.Text(), `group "w": requests device "gpu", but slots of node pool "cpu" are counted in CPU`)
	must.StrContains(t, v.Ineligible[1].Problems.Text(), `group "ps": requests no device, but slots of node pool "gpu" are counted in "gpu"`)
}

// TestView_NeverFits checks which jobs no empty node could hold, and the numbers that are
// missing.
func TestView_NeverFits(t *testing.T) {
	w := func(gpus int, rack string) groupSpec { return groupSpec{"w", 0, "nvidia/gpu", gpus, rack} }
	least := func(n int) func(*api.Job) {
		return func(j *api.Job) {
			j.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []any{map[string]any{"min": float64(n)}}}
		}
	}
	inRatio := func(ps, w int) func(*api.Job) {
		return func(j *api.Job) {
			j.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []any{map[string]any{"gang": []any{"ps", "w"}, "ratio": fmt.Sprint(ps, ":", w)}}}
		}
	}
	for name, tc := range map[string]struct {
		groups []groupSpec
		edit   func(*api.Job)
		want   string
	}{
		"fits next to what others hold": {[]groupSpec{w(1, "")}, least(12), ""},
		"one too many":                  {[]groupSpec{w(1, "")}, least(13), "its minimum is 13 slots, and the nodes that it may use would have room for 12 if they were empty: 1 too few"},
		"by threes, one is left over":   {[]groupSpec{w(3, "")}, least(4), "its minimum is 12 slots, and the nodes that it may use would have room for 9 if they were empty: 3 too few"},
		"two groups together":           {[]groupSpec{w(1, "r1"), {"v", 0, "nvidia/gpu", 1, "r2"}}, least(12), ""},
		"two groups, still too many":    {[]groupSpec{w(1, "r1"), {"v", 0, "nvidia/gpu", 1, "r2"}}, least(13), "1 too few"},
		"no node meets the constraint":  {[]groupSpec{w(1, "r9")}, nil, "no node of its pool that takes workers meets its constraints"},
		"no node is large enough":       {[]groupSpec{w(5, "")}, nil, "a worker needs 5 slots of one node, and the largest node that it may use has 4: 1 too few"},
		"no node has the memory": {[]groupSpec{w(1, "")}, func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(901)
		}, "no node that it may use has the 1000 MHz and 901 MiB of one worker together with its slots"},
		"a node for each worker": {[]groupSpec{w(1, "")}, func(j *api.Job) {
			least(4)(j)
			j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
		}, "1 too few"},
		"a gang that fits": {[]groupSpec{w(1, ""), {"ps", 0, "nvidia/gpu", 2, ""}}, inRatio(2, 8), ""},
		"a gang, one group of which is too large": {[]groupSpec{w(1, "r1"), {"ps", 0, "nvidia/gpu", 1, ""}}, inRatio(1, 5),
			`its minimum has 5 workers in group "w", and the nodes that these may use would have room for 4 if they were empty: 1 too few`},
		"a gang that is too large together": {[]groupSpec{w(1, ""), {"ps", 0, "nvidia/gpu", 2, ""}}, inRatio(3, 7),
			"its minimum is 13 slots, and the nodes that it may use would have room for 12 if they were empty: 1 too few"},
		"a gang with a group that no node takes": {[]groupSpec{w(1, "r9"), {"ps", 0, "nvidia/gpu", 1, ""}}, inRatio(1, 4),
			`group "w": no node of its pool that takes workers meets its constraints`},
		"a gang whose servers hold no slot": {[]groupSpec{w(1, ""), {"ps", 0, "", 0, ""}}, inRatio(1, 12), ""},
		"a gang whose servers take a node each": {[]groupSpec{w(1, ""), {"ps", 0, "", 0, ""}}, func(j *api.Job) {
			inRatio(4, 4)(j)
			j.TaskGroups[1].Tasks[0].Resources.CPU = new(8000)
		}, `its minimum has 4 workers in group "ps", and the nodes that these may use would have room for 3 if they were empty: 1 too few`},
		"a gang whose server no node holds": {[]groupSpec{w(1, ""), {"ps", 0, "", 0, ""}}, func(j *api.Job) {
			inRatio(1, 4)(j)
			j.TaskGroups[1].Tasks[0].Resources.MemoryMB = new(901)
		}, `group "ps": no node that it may use has the 1000 MHz and 901 MiB of one worker`},
		"it runs": {[]groupSpec{{"w", 1, "nvidia/gpu", 1, ""}}, least(13), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", "gpu", gpus([3]any{"H100", 4, 0})+`,"Meta":{"rack":"r1"}`)
			f.node("n2", "gpu", gpus([3]any{"H100", 3, 1})+`,"Meta":{"rack":"r2"}`) // one may get well
			f.node("n3", "gpu", gpus([3]any{"H100", 4, 0})+`,"Meta":{"rack":"r2"}`)
			for _, n := range f.store.nodes {
				n.detailed = true
			}
			f.alloc("web", "x", "n1", "running", "run", "H100-0", "H100-1")
			j := f.job("j", "gpu", tc.groups...)
			if tc.edit != nil {
				tc.edit(j)
				f.index++
				j.ModifyIndex = new(f.index)
				f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "j"}, j))
			}
			v := f.view()
			must.Len(t, 1, v.Jobs)
			must.StrContains(t, v.Jobs[0].NeverFits, tc.want)
			must.Eq(t, tc.want == "", v.Jobs[0].NeverFits == "")
		})
	}
}
