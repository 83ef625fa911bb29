// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// fixture is a watcher whose store is filled by hand.
type fixture struct {
	*Watcher
	t     *testing.T
	index uint64
	pools map[string]config.Pool
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{Watcher: NewWatcher(&Client{}, time.Minute, hclog.NewNullLogger()), t: t, pools: map[string]config.Pool{
		"gpu": {Name: "gpu", Device: "gpu"}, "cpu": {Name: "cpu", CPUSlot: 1000},
	}}
	for _, l := range []string{"nodes", "allocations", "jobs", "evaluations"} {
		f.store.parts[l] = struct{}{}
	}
	return f
}

// wait has so many workers of a job's group w wait, as Nomad puts it: a blocked
// evaluation, and the number in the job's summary.
func (f *fixture) wait(info *api.Job, workers int) {
	f.t.Helper()
	f.store.putEval(&wireEval{ID: "e", Namespace: "default", JobID: *info.ID, Status: "blocked", ModifyIndex: f.index})
	j := newJob(identity.JobKey{Namespace: "default", ID: *info.ID}, info)
	j.queue = queue{workers: map[string]int{"w": workers}, index: f.index}
	f.putJob(j)
}

// node adds a node from Nomad's JSON, with what is given over a plain one.
func (f *fixture) node(id, pool, more string) {
	f.t.Helper()
	f.index++
	text := fmt.Sprintf(`{"ID":%q,"Name":%q,"Datacenter":"dc1","NodePool":%q,"Status":"ready","SchedulingEligibility":"eligible",
		"Drivers":{"horovod":{"Detected":true,"Healthy":true}},"ModifyIndex":%d,
		"NodeResources":{"Cpu":{"CpuShares":8500},"Memory":{"MemoryMB":1000},"Devices":[]},
		"ReservedResources":{"Cpu":{"CpuShares":500},"Memory":{"MemoryMB":100}}%s}`, id, id, pool, f.index, more)
	var w wireNode
	must.NoError(f.t, json.Unmarshal([]byte(text), &w))
	f.store.putNode(&w, false)
}

// gpus is the JSON of a node with device groups, "name:good:bad" each.
func gpus(groups ...[3]any) string {
	devices := []any{}
	for _, g := range groups {
		instances := []any{}
		for i := range g[1].(int) + g[2].(int) {
			instances = append(instances, map[string]any{"ID": fmt.Sprint(g[0], "-", i), "Healthy": i < g[1].(int)})
		}
		devices = append(devices, map[string]any{"Vendor": "nvidia", "Type": "gpu", "Name": g[0], "Instances": instances})
	}
	text, err := json.Marshal(devices)
	if err != nil {
		panic(err)
	}
	return `,"NodeResources":{"Cpu":{"CpuShares":8500},"Memory":{"MemoryMB":1000},"Devices":` + string(text) + `}`
}

// alloc adds an allocation; devices are "name-index".
func (f *fixture) alloc(job, group, node, client, desired string, devices ...string) {
	f.t.Helper()
	f.index++
	w := wireAlloc{
		ID: fmt.Sprint("alloc-", f.index), Namespace: "default", JobID: job, TaskGroup: group, NodeID: node,
		ClientStatus: client, DesiredStatus: desired, CreateIndex: f.index, ModifyIndex: f.index,
	}
	text := `{"Tasks":{"t":{"Cpu":{"CpuShares":1000},"Memory":{"MemoryMB":100},"Devices":[]}}}`
	if len(devices) > 0 {
		ids, err := json.Marshal(devices)
		must.NoError(f.t, err)
		text = fmt.Sprintf(`{"Tasks":{"t":{"Cpu":{"CpuShares":1000},"Memory":{"MemoryMB":100},"Devices":[{"Vendor":"nvidia","Type":"gpu","Name":%q,"DeviceIDs":%s}]}}}`,
			devices[0][:len(devices[0])-2], ids)
	}
	must.NoError(f.t, json.Unmarshal([]byte(text), &w.AllocatedResources))
	f.store.putAlloc(&w)
}

type groupSpec struct {
	name   string
	count  int
	device string
	gpus   int
	rack   string
}

// job adds an elastic job.
func (f *fixture) job(id, pool string, groups ...groupSpec) *api.Job {
	f.index++
	j := &api.Job{
		ID: new(id), Namespace: new("default"), Type: new("batch"), NodePool: new(pool), Priority: new(50), Datacenters: []string{"*"},
		Status: new("running"), CreateIndex: new(f.index), ModifyIndex: new(f.index), JobModifyIndex: new(f.index), Version: new(uint64(0)),
	}
	for _, g := range groups {
		r := &api.Resources{CPU: new(1000), MemoryMB: new(100)}
		if g.gpus > 0 {
			r.Devices = []*api.RequestedDevice{{Name: g.device, Count: new(uint64(g.gpus))}}
		}
		tg := &api.TaskGroup{
			Name: new(g.name), Count: new(g.count),
			Scaling: &api.ScalingPolicy{Min: new(int64(0)), Max: new(int64(16)), Policy: map[string]any{"kolo": []any{map[string]any{}}}},
			Tasks:   []*api.Task{{Name: "t", Driver: "horovod", Resources: r}},
		}
		if g.rack != "" {
			tg.Constraints = []*api.Constraint{{LTarget: "${meta.rack}", Operand: "=", RTarget: g.rack}}
		}
		j.TaskGroups = append(j.TaskGroups, tg)
	}
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: id}, j))
	return j
}

func (f *fixture) view() *View {
	f.t.Helper()
	v, err := f.View(func(name string) config.Pool { return f.pools[name] })
	must.NoError(f.t, err)
	return v
}

func TestView_NotBeforeAllIsRead(t *testing.T) {
	w := NewWatcher(&Client{}, time.Minute, hclog.NewNullLogger())
	_, err := w.View(nil)
	must.ErrorIs(t, err, ErrNotReady)
}

func TestView_DeviceGroups(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100 nvlink0", 4, 0}, [3]any{"H100 nvlink1", 3, 1}))
	f.node("n2", "gpu", gpus([3]any{"A100", 2, 0}))
	f.node("n3", "other", gpus([3]any{"A100", 2, 0}))
	f.job("any", "gpu", groupSpec{"w", 2, "nvidia/gpu", 2, ""})
	f.job("one", "gpu", groupSpec{"w", 0, "nvidia/gpu/A100", 1, ""})
	f.alloc("any", "w", "n1", "running", "run", "H100 nvlink1-0", "H100 nvlink1-1")
	f.alloc("any", "w", "n1", "running", "stop", "H100 nvlink0-0", "H100 nvlink0-1")
	f.alloc("any", "w", "n1", "complete", "stop", "H100 nvlink0-2", "H100 nvlink0-3")
	f.alloc("web", "x", "n2", "running", "run", "A100-0")

	v := f.view()
	must.Eq(t, []planner.Bin{{Type: "nvidia/gpu/H100 nvlink0", Slots: 4}, {Type: "nvidia/gpu/H100 nvlink1", Slots: 3}}, v.Nodes[0].Bins)
	must.Eq(t, []planner.Bin{{Type: "nvidia/gpu/A100", Slots: 1}}, v.Nodes[1].Bins, must.Sprint("what others hold is taken off"))
	must.SliceEmpty(t, v.Nodes[2].Bins, must.Sprint("a pool without configuration counts nothing"))
	must.Eq(t, 8000, v.Nodes[0].CPU)
	must.Eq(t, 7000, v.Nodes[1].CPU)

	anyJob, one := v.Jobs[0], v.Jobs[1]
	must.SliceContains(t, anyJob.Groups[0].Live, planner.Worker{Place: placement.Place{Node: 0, Bin: 1}})
	must.SliceContains(t, anyJob.Groups[0].Live, planner.Worker{Place: placement.Place{Node: 0, Bin: 0}, Ending: true})
	must.Len(t, 2, anyJob.Groups[0].Live)
	must.Eq(t, 1, v.Facts[0].Running)
	must.Len(t, 3, anyJob.Groups[0].Class.Places)
	must.Eq(t, []placement.Place{{Node: 1, Bin: 0}}, one.Groups[0].Class.Places)
	must.Eq(t, "", v.Facts[0].Type)
	must.Eq(t, "nvidia/gpu/A100", v.Facts[1].Type)
	must.Eq(t, 2, anyJob.Groups[0].Need.Slots)
}

func TestView_CPUSlots(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "cpu", "")
	f.job("a", "cpu", groupSpec{"w", 1, "", 0, ""})
	f.alloc("a", "w", "n1", "running", "run")
	f.alloc("web", "x", "n1", "running", "run")
	v := f.view()
	must.Eq(t, []planner.Bin{{Slots: 7}}, v.Nodes[0].Bins)
	must.Eq(t, planner.Worker{Place: placement.Place{Node: 0, Bin: 0}}, v.Jobs[0].Groups[0].Live[0])
	must.Eq(t, placement.Need{Slots: 1, CPU: 1000, Memory: 100}, v.Jobs[0].Groups[0].Need)
}

func TestView_WrongPool(t *testing.T) {
	f := newFixture(t)
	f.job("a", "cpu", groupSpec{"w", 1, "gpu", 1, ""})
	f.job("b", "gpu", groupSpec{"w", 1, "", 0, ""})
	f.job("c", "all", groupSpec{"w", 1, "", 0, ""})
	f.job("d", "cpu", groupSpec{"w", 1, strings.Repeat("gpu", 1000), 1, ""})
	v := f.view()
	must.Len(t, 0, v.Jobs)
	must.Less(t, 500, len(v.Ineligible[3].Problems.Text()))
	must.StrContains(t, v.Ineligible[0].Problems.Text(), "remove the device block")
	must.StrContains(t, v.Ineligible[1].Problems.Text(), "add a device block")
	must.StrContains(t, v.Ineligible[2].Problems.Text(), "write the node pool")
}

// TestView_Sick covers the states of a node in which a change of the count could kill a
// healthy worker.
func TestView_Sick(t *testing.T) {
	for name, tc := range map[string]struct {
		node string
		want string
	}{
		"healthy":       {gpus([3]any{"H100", 2, 0}), ""},
		"ineligible":    {gpus([3]any{"H100", 2, 0}) + `,"SchedulingEligibility":"ineligible"`, ""},
		"down":          {gpus([3]any{"H100", 2, 0}) + `,"Status":"down"`, "which is down"},
		"disconnected":  {gpus([3]any{"H100", 2, 0}) + `,"Status":"disconnected"`, "which is disconnected"},
		"draining":      {gpus([3]any{"H100", 2, 0}) + `,"Drain":true`, "being drained"},
		"driver":        {gpus([3]any{"H100", 2, 0}) + `,"Drivers":{"horovod":{"Detected":true,"Healthy":false}}`, "driver horovod of node n1 is unhealthy"},
		"another's GPU": {gpus([3]any{"H100", 1, 1}), ""},
		"its own GPU":   {gpus([3]any{"H100", 0, 2}), "device H100-0 of node n1 is unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", "gpu", tc.node)
			f.job("a", "gpu", groupSpec{"w", 1, "gpu", 1, ""})
			f.alloc("a", "w", "n1", "running", "run", "H100-0")
			v := f.view()
			if tc.want == "" {
				must.Eq(t, "", v.Jobs[0].UnhealthyReason)
			} else {
				must.StrContains(t, v.Jobs[0].UnhealthyReason, tc.want)
			}
		})
	}
}

// Workers in images, under other task drivers than Kolo's, are seen like the workers of
// Kolo's drivers.
func TestView_AnyDriver(t *testing.T) {
	seen := map[string]*View{}
	for _, driver := range []string{"horovod", "docker"} {
		f := newFixture(t)
		f.node("n1", "gpu", gpus([3]any{"H100", 2, 0})+`,"Drivers":{"`+driver+`":{"Detected":true,"Healthy":true}}`)
		job := f.job("a", "gpu", groupSpec{"w", 2, "gpu", 1, ""})
		job.TaskGroups[0].Tasks[0].Driver = driver
		f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "a"}, job))
		f.alloc("a", "w", "n1", "running", "run", "H100-0")
		f.alloc("a", "w", "n1", "complete", "run", "H100-1")
		seen[driver] = f.view()
	}
	must.Len(t, 1, seen["docker"].Jobs)
	must.Positive(t, seen["docker"].Facts[0].Completed)
	must.Eq(t, seen["horovod"].Jobs, seen["docker"].Jobs)
	must.Eq(t, seen["horovod"].Facts, seen["docker"].Facts)
}

func TestView_CompletionIsNotAStop(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 2, 0}))
	f.job("a", "gpu", groupSpec{"w", 1, "gpu", 1, ""})
	f.alloc("a", "w", "n1", "complete", "stop", "H100-0")
	f.alloc("a", "w", "n1", "failed", "run", "H100-0")
	must.Eq(t, 0, f.view().Facts[0].Completed)
	f.alloc("a", "w", "n1", "complete", "run", "H100-0")
	must.Eq(t, f.index, f.view().Facts[0].Completed)
}

func TestView_AStoppedJob(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 2, 0}))
	job := f.job("a", "gpu", groupSpec{"w", 1, "gpu", 1, ""})
	must.False(t, f.view().Facts[0].Stopped)
	yes := true
	job.Stop = &yes
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "a"}, job))
	v := f.view()
	must.True(t, v.Facts[0].Stopped)
	must.True(t, v.Jobs[0].Stopped)
}

func TestView_RacksByMetadata(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 2, 0}))
	f.node("n2", "gpu", gpus([3]any{"H100", 2, 0}))
	f.job("a", "gpu", groupSpec{"r1", 0, "gpu", 1, "r1"}, groupSpec{"r2", 0, "gpu", 1, "r2"})
	v := f.view()
	must.Len(t, 2, v.Jobs[0].Groups[0].Class.Places, must.Sprint("metadata is not known yet"))
	asked := 0
	f.details.Range(func(any, any) bool { asked++; return true })
	must.Eq(t, 2, asked, must.Sprint("and has to be read"))

	for id, rack := range map[string]string{"n1": "r1", "n2": "r2"} {
		n := *f.store.nodes[id]
		w := n.wireNode
		must.NoError(t, json.Unmarshal([]byte(`{"Meta":{"rack":"`+rack+`"}`+gpus([3]any{"H100", 2, 0})+`}`), &w))
		must.True(t, f.store.putNode(&w, true))
	}
	v = f.view()
	must.Eq(t, []placement.Place{{Node: 0, Bin: 0}}, v.Jobs[0].Groups[0].Class.Places)
	must.Eq(t, []placement.Place{{Node: 1, Bin: 0}}, v.Jobs[0].Groups[1].Class.Places)
}

func TestStore_NewerWins(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 2, 0}))
	f.alloc("a", "w", "n1", "running", "run", "H100-0")
	a := f.store.allocs["alloc-2"]
	must.False(t, f.store.putAlloc(&wireAlloc{ID: "alloc-2", ClientStatus: "pending", ModifyIndex: 1}))
	must.True(t, f.store.putAlloc(&wireAlloc{ID: "alloc-2", ClientStatus: "failed", ModifyIndex: 9}))
	must.True(t, f.store.allocs["alloc-2"].over)
	must.Eq(t, a.devices, f.store.allocs["alloc-2"].devices, must.Sprint("an event without resources forgot the devices"))

	dropped := prune(f.store.allocs, map[string]bool{}, 5, func(a *alloc) uint64 { return a.index })
	must.False(t, dropped, must.Sprint("newer than the list"))
	must.True(t, prune(f.store.allocs, map[string]bool{}, 9, func(a *alloc) uint64 { return a.index }))

	must.True(t, f.store.putEval(&wireEval{ID: "e", JobID: "a", Status: "blocked", ModifyIndex: 3}))
	must.True(t, f.store.putEval(&wireEval{ID: "e", JobID: "a", Status: "complete", ModifyIndex: 5}))
	must.False(t, f.store.putEval(&wireEval{ID: "e", JobID: "a", Status: "blocked", ModifyIndex: 3}), must.Sprint("an old list brought it back"))
}

// TestView_Blocked: once a job's workers are placed, the slots that it waited for are not
// counted again, although the evaluation still appears blocked.
func TestView_Blocked(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
	j := f.job("inference", "gpu", groupSpec{name: "w", count: 3, device: "nvidia/gpu", gpus: 1})
	j.TaskGroups[0].Scaling = nil
	f.alloc("inference", "w", "n1", "running", "run", "H100-0")
	f.index++
	f.wait(j, 2)
	slots := func() (n int) {
		for _, b := range f.view().Blocked {
			n += b.Slots
		}
		return n
	}
	must.Eq(t, 2, slots())
	f.alloc("inference", "w", "n1", "pending", "run", "H100-1")
	must.Eq(t, 1, slots())
	f.alloc("inference", "w", "n1", "pending", "run", "H100-2")
	must.Eq(t, 0, slots())
}

// TestView_BlockedThatNeverFits: jobs of others ask for more than any node has. They never
// start, and elastic jobs must not shrink for them.
func TestView_BlockedThatNeverFits(t *testing.T) {
	for name, gpus4 := range map[string]uint64{"one more than a node has": 5, "so many that sums overflow": 1<<62 + 1, "the most": 1<<64 - 1} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
			j := f.job("greedy", "gpu", groupSpec{name: "w", count: 4, device: "nvidia/gpu", gpus: 1})
			j.TaskGroups[0].Scaling = nil
			j.TaskGroups[0].Tasks[0].Resources.Devices[0].Count = &gpus4
			f.index++
			f.wait(j, 4)
			must.SliceEmpty(t, f.view().Blocked)
		})
	}
}
