// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// TestView_HostileConstraints: some jobs have constraints that Nomad accepts and that no
// real cluster uses. The view is made anyway, and Nomad judges them.
func TestView_HostileConstraints(t *testing.T) {
	for name, c := range map[string]*api.Constraint{
		"a separator of ours in the attribute": {LTarget: "a" + termSeparator + "b", Operand: "=", RTarget: "x"},
		"and in the value":                     {LTarget: "${node.class}", Operand: "=", RTarget: "x" + termSeparator},
		"of fields":                            {LTarget: fieldSeparator + fieldSeparator, Operand: termSeparator, RTarget: fieldSeparator},
		"a costly regular expression":          {LTarget: "${node.unique.name}", Operand: "regexp", RTarget: strings.Repeat(`(\pL\pN\pS){100}`, 5000)},
		"none at all":                          {LTarget: "${node.unique.name}", Operand: "regexp", RTarget: "("},
		"nothing":                              {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
			j := f.job("hostile", "gpu", groupSpec{name: "w", count: 0, device: "nvidia/gpu", gpus: 1})
			j.Constraints = []*api.Constraint{c}
			f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "hostile"}, j))
			f.job("good", "gpu", groupSpec{name: "w", count: 0, device: "nvidia/gpu", gpus: 1})
			must.Len(t, 2, f.view().Jobs)
		})
	}
}

// TestClassKey_BoundsWhatAJobHasJudged: constraints that would cost an autoscaler seconds
// for each node are not evaluated, and count as met.
func TestClassKey_BoundsWhatAJobHasJudged(t *testing.T) {
	const name = "${node.unique.name}"
	costly := strings.Repeat(`.{0,999}`, 30) + "Z"
	for what, c := range map[string]*api.Constraint{
		"repetitions":               {LTarget: name, Operand: "regexp", RTarget: costly},
		"a literal left side":       {LTarget: strings.Repeat("a", 500), Operand: "regexp", RTarget: "(a|aa)*Z"},
		"a set of 20,000 elements":  {LTarget: strings.Repeat("x,", 20000), Operand: "set_contains", RTarget: "b"},
		"20,000 versions":           {LTarget: "${attr.nomad.version}", Operand: "version", RTarget: strings.Repeat("1,", 20000) + "1"},
		"versions within 512 bytes": {LTarget: "${attr.nomad.version}", Operand: "semver", RTarget: strings.Repeat("1,", 200) + "1"},
		"another on the right":      {LTarget: name, Operand: "set_contains_any", RTarget: strings.Repeat("b,", 20000)},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			f.node("n1", "gpu", gpus([3]any{"H100", 1, 0}))
			j := f.job("hostile", "gpu", groupSpec{name: "g", device: "nvidia/gpu", gpus: 1})
			j.Constraints = []*api.Constraint{c}
			f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "hostile"}, j))
			must.SliceEmpty(t, f.store.jobs[identity.JobKey{Namespace: "default", ID: "hostile"}].groups[0].class.prepared())
			must.Len(t, 1, f.view().Jobs[0].Groups[0].Class.Places)
		})
	}
	many := func(edit func(j *api.Job, s string)) classKey {
		f := newFixture(t)
		j := f.job("hostile", "gpu", groupSpec{name: "g", device: "nvidia/gpu", gpus: 1})
		for i := range 20000 {
			edit(j, strconv.Itoa(i))
		}
		f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "hostile"}, j))
		return f.store.jobs[identity.JobKey{Namespace: "default", ID: "hostile"}].groups[0].class
	}
	plain := many(func(j *api.Job, s string) {
		j.Constraints = append(j.Constraints, &api.Constraint{LTarget: name, Operand: "!=", RTarget: s})
	})
	must.Len(t, termsLimit, plain.prepared())
	patterns := many(func(j *api.Job, s string) {
		j.Constraints = append(j.Constraints, &api.Constraint{LTarget: name, Operand: "regexp", RTarget: ".{60}" + s})
	})
	must.Len(t, 1, patterns.prepared(), must.Sprint("the bound is that of all expressions of a group"))
	versions := many(func(j *api.Job, s string) {
		j.Constraints = append(j.Constraints, &api.Constraint{LTarget: "${attr.nomad.version}", Operand: "version", RTarget: ">= " + s + ", < 1000"})
	})
	must.Len(t, budgetOfGroup.versions/2, versions.prepared())
	places := many(func(j *api.Job, s string) { j.Datacenters = append(j.Datacenters, s) })
	must.Eq(t, "", places.datacenters)
}

// TestView_ForgetsClasses registers a job again and again, with another
// constraint each time.
func TestView_ForgetsClasses(t *testing.T) {
	f := newFixture(t)
	f.node("n1", "gpu", gpus([3]any{"H100", 1, 0}))
	for i := range 20 {
		f.index++
		j := f.job("hostile", "gpu", groupSpec{name: "g", device: "nvidia/gpu", gpus: 1})
		j.Constraints = []*api.Constraint{{LTarget: "${node.class}", Operand: "!=", RTarget: strconv.Itoa(i)}}
		f.putJob(newJob(identity.JobKey{Namespace: "default", ID: "hostile"}, j))
		f.view()
	}
	must.MapLen(t, 1, f.classes.classes)
}

// TestView_BlockedJobsAreBoundedByTheRules: jobs that are not elastic wait for room that no
// node can have, or have a higher priority than the operator grants. Elastic jobs of others
// must not shrink for them.
func TestView_BlockedJobsAreBoundedByTheRules(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*api.Job)
		want []Blocked
	}{
		"waits for room":         {func(*api.Job) {}, []Blocked{{Pool: "gpu", Priority: 50, Workers: 8, Slots: 8, Worker: 1}}},
		"priority past the rule": {func(j *api.Job) { j.Priority = new(100) }, []Blocked{{Pool: "gpu", Priority: 60, Workers: 8, Slots: 8, Worker: 1}}},
		"a name that no node has": {func(j *api.Job) {
			j.Constraints = []*api.Constraint{{LTarget: "${node.unique.name}", Operand: "=", RTarget: "none"}}
		}, nil},
		"memory that no node has":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = new(1 << 28) }, nil},
		"CPU that no node has":     {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = new(1 << 28) }, nil},
		"devices that no node has": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Devices[0].Count = new(uint64(9)) }, nil},
		"devices and a node, apart": {func(j *api.Job) {
			j.Constraints = []*api.Constraint{{LTarget: "${node.unique.name}", Operand: "=", RTarget: "small"}}
			j.TaskGroups[0].Tasks[0].Resources.Devices[0].Count = new(uint64(2))
		}, nil},
		"a datacenter that is not":   {func(j *api.Job) { j.Datacenters = []string{"nowhere"} }, nil},
		"a driver that no node has":  {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Driver = "none" }, nil},
		"a device that is not there": {func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Devices[0].Name = "fpga" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.pools["gpu"] = config.Pool{Name: "gpu", Device: "gpu", Queues: map[string]config.Queue{"*": {Name: "*", MaxPriority: 60}}}
			f.node("n1", "gpu", gpus([3]any{"H100", 8, 0}))
			f.node("small", "gpu", gpus([3]any{"H100", 1, 0}))
			j := f.job("greedy", "gpu", groupSpec{name: "w", count: 8, device: "nvidia/gpu", gpus: 1})
			j.TaskGroups[0].Scaling = nil
			tc.edit(j)
			f.wait(j, 8)
			for i := range tc.want {
				tc.want[i].Key = identity.JobKey{Namespace: "default", ID: "greedy"}
			}
			must.Eq(t, tc.want, f.view().Blocked)
		})
	}
}
