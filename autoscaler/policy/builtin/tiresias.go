// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// tiresias is discretised two-dimensional least attained service: jobs move
// to lower queues as the GPU-seconds they received pass thresholds, and each
// queue is served in order. Within a queue jobs keep their place, which is
// what saves preemptions over plain least attained service.
type tiresias struct{ service }

type tiresiasOptions struct {
	Thresholds []float64 `hcl:"thresholds,optional" doc:"attained service in GPU-seconds at which a job moves one queue down, ascending"`
	Starvation float64   `hcl:"starvation,optional" doc:"a suspended job returns to the first queue once it has waited this many times its last run; 0 never"`
	Order      string    `hcl:"order,optional" doc:"order inside a queue: start (by first start) or submit; jobs that never ran come last in both"`
}

// tiresiasDefaults has one threshold at 16 GPU-hours, which the Pollux
// authors found best for their traces, and Voda's starvation factor.
var tiresiasDefaults = tiresiasOptions{Thresholds: []float64{57600}, Starvation: 8, Order: "start"}

// Check implements registry.Checker.
func (o tiresiasOptions) Check() (string, string) {
	switch {
	case !slices.IsSorted(o.Thresholds):
		return "thresholds", "must ascend"
	case o.Starvation < 0:
		return "starvation", "must not be negative"
	case o.Order != "start" && o.Order != "submit":
		return "order", `must be "start" or "submit"`
	}
	return "", ""
}

func (o tiresiasOptions) service() service {
	return service{thresholds: o.Thresholds, starvation: o.Starvation, bySubmit: o.Order == "submit"}
}

var tiresiasEntry = registry.Define(registry.Info{
	Name:   "tiresias",
	Doc:    "Discretised two-dimensional least attained service at the preferred size, with a guard against starvation.",
	Source: "Tiresias (NSDI'19); starvation guard as in its artifact and Voda",
	Needs:  "attained service only",
}, tiresiasDefaults, func(o tiresiasOptions) policy.Policy { return &tiresias{o.service()} })

// Name implements Policy.
func (*tiresias) Name() string { return "tiresias" }

// Allocate implements Policy.
func (t *tiresias) Allocate(s *policy.Snapshot) policy.Decision {
	var d policy.Decision
	pools := split(s, &d)
	l := t.advance(s)
	for _, p := range pools {
		p.hold(false)
		order, _ := t.rank(s, p, l)
		p.gang(order, false, "least attained service")
	}
	t.alarms(s, &d, pools, l)
	settle(&d, pools)
	if l != nil {
		save(&d, l)
	}
	return d
}
