// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// constrained is the class of a job with these constraints.
func constrained(datacenter, driver string, all ...*api.Constraint) classKey {
	job := &api.Job{Datacenters: []string{datacenter}, Constraints: all, TaskGroups: []*api.TaskGroup{{
		Name: new("workers"), Tasks: []*api.Task{{Name: "train", Driver: driver}},
	}}}
	return newJob(identity.JobKey{Namespace: "default", ID: "train"}, job).groups[0].class
}

// FuzzConstraint lets a job's author choose every part of a class. Any node can be matched
// against it, and two constraints are never mistaken for one.
func FuzzConstraint(f *testing.F) {
	f.Add("${attr.kernel.name}", "=", "linux", "dc*", "horovod")
	f.Add("${meta.rack}", "set_contains_any", "a, b", "dc1", "raw_exec")
	f.Add("${attr.os.version}", "version", ">= 1.2, < 2", "[", "")
	f.Add("${node.class}", "regexp", "(", "", "docker")
	f.Add("a"+termSeparator+"b", "=", "c", "dc1", "horovod")
	f.Add("a", "=", "b"+fieldSeparator+"c", "dc1"+termSeparator, termSeparator)
	n := &node{detailed: true, wireNode: wireNode{Datacenter: "dc1", NodePool: api.NodePoolDefault,
		Attributes: map[string]string{"kernel.name": "linux"}, Meta: map[string]string{"rack": "a,b"},
		Drivers: map[string]struct{ Detected, Healthy bool }{"horovod": {true, true}}}}
	f.Fuzz(func(t *testing.T, left, operand, right, datacenter, driver string) {
		one := constrained(datacenter, driver, &api.Constraint{LTarget: left, Operand: operand, RTarget: right})
		one.feasible(n, one.prepared())
		(&node{}).resolve(left)
		if one.constraints != "" {
			must.Eq(t, left+fieldSeparator+operand+fieldSeparator+right, one.constraints)
			must.Eq(t, 0, strings.Count(one.constraints, termSeparator))
		}
	})
}
