// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

func TestRead_SpareHosts(t *testing.T) {
	with := func(g *api.TaskGroup, count, spares int) *api.TaskGroup {
		g.Count = ptr(count)
		g.Tasks[0].Config = map[string]any{"spare_hosts": spares}
		return g
	}
	fixed := func(count int) *api.TaskGroup {
		g := with(group("spare", 0, 1, nil), count, 1)
		g.Scaling = nil
		return g
	}
	const where = `group "workers": task "train": config.spare_hosts: `
	for name, c := range map[string]struct {
		groups []*api.TaskGroup
		want   []string
	}{
		"in a group of their own": {[]*api.TaskGroup{with(group("workers", 1, 8, kv()), 2, 1), fixed(1)}, nil},
		"none":                    {[]*api.TaskGroup{with(group("workers", 0, 8, kv()), 2, 0)}, nil},
		"among the workers": {[]*api.TaskGroup{with(group("workers", 1, 8, kv()), 2, 1)}, []string{where +
			"needs a count of 1 in groups with spare_hosts and without a kolo block, because a kolo block counts workers that train; their count is 0; " +
			"add a group with the same task and service, no kolo block, and count = 1; or remove spare_hosts"}},
		"too many": {[]*api.TaskGroup{with(group("workers", 1, 8, kv()), 2, 1), fixed(2)}, []string{where +
			"needs a count of 1 in groups with spare_hosts and without a kolo block, because a kolo block counts workers that train; their count is 2; " +
			"add a group with the same task and service, no kolo block, and count = 1; or remove spare_hosts"}},
		"more than any job has": {[]*api.TaskGroup{with(group("workers", 1, 8, kv()), 2, 1e9)}, []string{where +
			"needs a count of 1000000000 in groups with spare_hosts and without a kolo block, because a kolo block counts workers that train; their count is 0; " +
			"add a group with the same task and service, no kolo block, and count = 1000000000; or remove spare_hosts"}},
		"of a job that may wait": {[]*api.TaskGroup{with(group("workers", 0, 8, kv()), 2, 1), fixed(1)}, []string{where +
			"while the job waits or is suspended with no workers, the spare host would train alone; set scaling { min = 1 }, or remove spare_hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Read(job(kv(), func(j *api.Job) { j.TaskGroups = c.groups }))
			must.Eq(t, c.want, problems.Strings())
		})
	}
}

func TestRead_Spare(t *testing.T) {
	served := func(edit func(*api.TaskGroup), pairs ...any) *api.TaskGroup {
		g := group("workers", 0, 9, kv(pairs...))
		g.Tasks[0].Driver = "torch"
		g.Services = []*api.Service{{Name: "train", Provider: "nomad"}}
		if edit != nil {
			edit(g)
		}
		return g
	}
	configured := func(key string, value any) func(*api.TaskGroup) {
		return func(g *api.TaskGroup) { g.Tasks[0].Config = map[string]any{key: value} }
	}
	const where = `group "workers": scaling.policy.kolo.`
	for name, c := range map[string]struct {
		group *api.TaskGroup
		want  []string
		max   int
	}{
		"below the largest count": {served(nil, "spare", 1), nil, 8},
		"none":                    {served(configured("spare_hosts", 0), "spare", 0), nil, 9},
		"of Horovod, none":        {served(func(g *api.TaskGroup) { g.Tasks[0].Driver = "horovod" }, "spare", 0), nil, 9},
		"fewer than none":         {served(nil, "spare", -1), []string{where + "spare: -1 is below 1; write at least 1"}, 0},
		"more than any job has":   {served(nil, "spare", 1000000), []string{where + "spare: 1000000 is not a whole number of at most 100000; write a number such as 2"}, 0},
		"half a spare":            {served(nil, "spare", 0.5), []string{where + "spare: 0.5 is not a whole number of at most 100000; write a number such as 2"}, 0},
		"next to max":             {served(nil, "spare", 1, "max", 6), nil, 6},
		"above the largest count": {served(nil, "spare", 1, "max", 9), []string{where + "max: 9 is above scaling.max of all groups without kolo.spare, 8; write at most 8"}, 0},
		"no room for a worker":    {served(nil, "spare", 9), []string{where + "spare: 9 is above what scaling.max of all groups leaves above the smallest size, 8; write at most 8"}, 0},
		"and spare_hosts": {served(configured("spare_hosts", 1), "spare", 1),
			[]string{where + "spare: it contradicts spare_hosts in the configuration of a task, whose number of spares never changes; remove one of them"}, 0},
		"in restart mode": {served(configured("mode", "restart"), "spare", 1),
			[]string{where + `spare: group "workers": task "train" has mode = "restart", in which a process is started for one rank and replaces no other; remove one of them`}, 0},
		"of Horovod": {served(func(g *api.TaskGroup) { g.Tasks[0].Driver = "horovod" }, "spare", 1),
			[]string{where + `spare: group "workers": task "train" has driver "horovod", whose processes are started for one rank and replace no other; remove spare, or train with driver = "torch"`}, 0},
		"without a service": {served(func(g *api.TaskGroup) { g.Services, g.Tasks[0].Services = nil, nil }, "spare", 1),
			[]string{where + `spare: group "workers" has no service of provider "nomad", at which its task reports that it takes spares; add the service of the task's setting service`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(job(kv(), func(j *api.Job) { j.TaskGroups = []*api.TaskGroup{c.group} }))
			must.Eq(t, c.want, problems.Strings())
			if c.want == nil {
				must.Eq(t, c.max, spec.Max)
				must.False(t, spec.Lendable) // the job itself says how many it has
			}
		})
	}
}

// A pool lends a spare only to a job that can have one, and that says nothing about spares.
func TestRead_Lendable(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*api.TaskGroup)
		want bool
	}{
		"a torch task":      {func(*api.TaskGroup) {}, true},
		"in a container":    {func(g *api.TaskGroup) { g.Tasks[0].Driver = "docker" }, true},
		"of Horovod":        {func(g *api.TaskGroup) { g.Tasks[0].Driver = "horovod" }, false},
		"in restart mode":   {func(g *api.TaskGroup) { g.Tasks[0].Config = map[string]any{"mode": "restart"} }, false},
		"without a service": {func(g *api.TaskGroup) { g.Services, g.Tasks[0].Services = nil, nil }, false},
		"none wanted":       {func(g *api.TaskGroup) { g.Scaling.Policy = kv("spare", 0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := group("workers", 0, 9, kv())
			g.Tasks[0].Driver = "torch"
			g.Services = []*api.Service{{Name: "train", Provider: "nomad"}}
			c.edit(g)
			spec, problems := Read(job(kv(), func(j *api.Job) { j.TaskGroups = []*api.TaskGroup{g} }))
			must.SliceEmpty(t, problems)
			must.Eq(t, c.want, spec.Lendable)
			must.Eq(t, 9, spec.Max)
		})
	}
}
