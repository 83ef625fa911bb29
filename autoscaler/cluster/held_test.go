// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// phased is a group that fetches, trains next to a task that logs, and tidies
// up: 300 + 100 at first, then 1000 + 100, then 50.
func phased() []*api.Task {
	task := func(name string, n int, l *api.TaskLifecycle) *api.Task {
		return &api.Task{Name: name, Driver: "horovod", Lifecycle: l, Resources: &api.Resources{CPU: new(n), MemoryMB: new(2 * n)}}
	}
	return []*api.Task{
		task("fetch", 300, &api.TaskLifecycle{Hook: api.TaskLifecycleHookPrestart}),
		task("log", 100, &api.TaskLifecycle{Hook: api.TaskLifecycleHookPrestart, Sidecar: true}),
		task("train", 1000, nil),
		task("tidy", 50, &api.TaskLifecycle{Hook: api.TaskLifecycleHookPoststop}),
	}
}

// A worker requests the resources of its largest phase, and holds them while it runs.
func TestView_TasksOfPhasesThatFollowOneAnother(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "cpu", "")
	j := f.job("a", "cpu", groupSpec{name: "w", count: 1})
	j.TaskGroups[0].Tasks = phased()
	j.ModifyIndex = new(f.index + 1)
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "a"}, j))
	v := f.view()
	must.Eq(t, placement.Need{Slots: 2, CPU: 1100, Memory: 2200}, v.Jobs[0].Groups[0].Need)

	resources := func(text string) *alloc {
		f.index++
		w := wireAlloc{ID: "x", Namespace: "default", JobID: "other", NodeID: "n1", ModifyIndex: f.index}
		must.NoError(t, json.Unmarshal([]byte(text), &w.AllocatedResources))
		f.store.putAlloc(&w)
		return f.store.allocs["x"]
	}
	got := resources(`{"TaskLifecycles":{"fetch":{"Hook":"prestart"},"log":{"Hook":"prestart","Sidecar":true},"train":null,"tidy":{"Hook":"poststop"}},
		"Tasks":{"fetch":{"Cpu":{"CpuShares":300},"Memory":{"MemoryMB":600}},"log":{"Cpu":{"CpuShares":100},"Memory":{"MemoryMB":200}},
		"train":{"Cpu":{"CpuShares":1000},"Memory":{"MemoryMB":2000}},"tidy":{"Cpu":{"CpuShares":50},"Memory":{"MemoryMB":100}}}}`)
	must.Eq(t, amounts{1100, 2200}, amounts{got.cpu, got.memory})

	t.Log("reserved cores are no one else's at any time")
	got = resources(`{"TaskLifecycles":{"fetch":{"Hook":"prestart"},"train":null},
		"Tasks":{"fetch":{"Cpu":{"CpuShares":3000,"ReservedCores":[1]},"Memory":{"MemoryMB":600}},"train":{"Cpu":{"CpuShares":1000},"Memory":{"MemoryMB":2000}}}}`)
	must.Eq(t, amounts{4000, 2000}, amounts{got.cpu, got.memory})
}

// A worker with reserved cores requests no MHz. Its slots are unknown, so the job has a problem,
// and the worker does not count as one slot.
func TestView_CoresAreNoSlotsOfCPU(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "cpu", "")
	j := f.job("a", "cpu", groupSpec{name: "w"})
	j.TaskGroups[0].Tasks[0].Resources = &api.Resources{Cores: new(8), MemoryMB: new(100)}
	j.ModifyIndex = new(f.index + 1)
	f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "a"}, j))
	v := f.view()
	must.SliceEmpty(t, v.Jobs)
	must.StrContains(t, v.Ineligible[0].Problems.Text(), "write cpu in place of cores")
}
