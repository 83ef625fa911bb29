// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// tiresias is discretised two-dimensional least attained service: jobs move to
// lower queues as the GPU-seconds they received pass thresholds, and the queues are
// served in order. Within a queue jobs keep their place. This saves preemptions
// compared with plain least attained service.
type tiresias struct {
	Thresholds []float64 `hcl:"thresholds,optional" doc:"attained service in GPU-seconds at which a job moves one queue down, ascending"`
	Starvation float64   `hcl:"starvation,optional" doc:"a suspended job returns to the first queue once it has waited this many times as long as its last run; 0 is never"`
	Order      string    `hcl:"order,optional" doc:"order inside a queue: start (by first start) or submit; jobs that never ran come last in both"`
}

// tiresiasDefaults holds one threshold at 16 GPU-hours, which the Pollux
// authors found best for their traces, and Voda's starvation factor.
var tiresiasDefaults = tiresias{Thresholds: []float64{57600}, Starvation: 8, Order: "start"}

// Check implements registry.Checker.
func (t tiresias) Check() (string, string) {
	switch {
	case !slices.IsSorted(t.Thresholds):
		return "thresholds", "must ascend"
	case t.Starvation < 0:
		return "starvation", "must not be negative"
	case t.Order != "start" && t.Order != "submit":
		return "order", `must be "start" or "submit"`
	}
	return "", ""
}

func (t tiresias) service() service {
	return service{thresholds: t.Thresholds, starvation: t.Starvation, bySubmit: t.Order == "submit"}
}

var tiresiasEntry = registry.Define(registry.Info{
	Name:   "tiresias",
	Doc:    "Discretised two-dimensional least attained service at the preferred size, with a guard against starvation.",
	Source: "Tiresias (NSDI'19); starvation guard as in its artifact and Voda",
	Needs:  "attained service only",
}, tiresiasDefaults, tiresias.allocate)

func (t tiresias) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	v := t.service()
	l := v.advance(s)
	for _, p := range pools {
		p.hold(false)
		order, _ := v.rank(s, p, l)
		p.gang(order, false, "least attained service")
	}
	v.alarms(s, &d, pools, l)
	settle(&d, pools)
	if l != nil {
		save(&d, l)
	}
	return d
}
