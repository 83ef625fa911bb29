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
