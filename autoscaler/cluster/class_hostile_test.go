// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// TestView_HostileConstraints has constraints that Nomad accepts and that no
// cluster has: the view is made all the same, and Nomad judges them.
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
			f.putJob(planner.JobKey{Namespace: "default", ID: "hostile"}, j)
			f.job("good", "gpu", groupSpec{name: "w", count: 0, device: "nvidia/gpu", gpus: 1})
			must.Len(t, 2, f.view().Jobs)
		})
	}
}
