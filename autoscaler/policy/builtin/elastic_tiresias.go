// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// elasticTiresias first runs the Tiresias pass at preferred sizes. When many jobs
// wait, it compacts jobs of lower queues to their minimum. The GPUs that are then
// free go to the jobs that gain most from them, including waiting ones.
type elasticTiresias struct {
	Thresholds []float64 `hcl:"thresholds,optional" doc:"attained service in GPU-seconds at which a job moves one queue down, ascending"`
	Starvation float64   `hcl:"starvation,optional" doc:"a suspended job returns to the first queue once it has waited this many times as long as its last run; 0 is never"`
	Order      string    `hcl:"order,optional" doc:"order inside a queue: start (by first start) or submit; jobs that never ran come last in both"`
	Compaction int       `hcl:"compaction,optional" doc:"compact jobs outside the first queue to their minimum when more jobs than this wait"`
}

func (e elasticTiresias) tiresias() tiresias {
	return tiresias{Thresholds: e.Thresholds, Starvation: e.Starvation, Order: e.Order}
}

// Check implements registry.Checker.
func (e elasticTiresias) Check() (string, string) {
	if e.Compaction < 0 {
		return "compaction", "must not be negative"
	}
	return e.tiresias().Check()
}

var elasticTiresiasEntry = registry.Define(registry.Info{
	Name:   "elastic-tiresias",
	Doc:    "Tiresias at preferred sizes; when many jobs wait, jobs in lower queues shrink to their minimum; free GPUs go to the jobs with the highest gain in speed-up.",
	Source: "EDL (TPDS'22, arXiv 1909.11985), as in Voda",
	Needs:  "attained service and speed-up curves; unmeasured sizes use the prior",
}, elasticTiresias{
	Thresholds: tiresiasDefaults.Thresholds, Starvation: tiresiasDefaults.Starvation,
	Order: tiresiasDefaults.Order, Compaction: 10,
}, elasticTiresias.allocate)

func (e elasticTiresias) allocate(s *policy.Snapshot) policy.Decision {
	d, pools := split(s)
	v := e.tiresias().service()
	l := v.advance(s)
	for _, p := range pools {
		p.pin()
		order, queues := v.rank(s, p, l)
		p.gang(order, false, "least attained service")
		waiting := 0
		for _, c := range order {
			if c.n == 0 {
				waiting++
			}
		}
		if waiting > e.Compaction {
			for _, c := range order {
				if queues[c.place] > 0 && c.n > c.low && p.set(c, c.low) {
					c.why = "makes room: many jobs wait and it had more service"
				}
			}
		}
		p.auction(order, 0, growOrStart, "gains more from these GPUs than any other job")
	}
	v.alarms(s, &d, pools, l)
	settle(&d, pools)
	if l != nil {
		save(&d, l)
	}
	return d
}

// growOrStart values the next step of a running job, or the start of a
// waiting one, by speed-up per GPU.
func growOrStart(c *candidate) (int, float64) {
	to := c.next(c.n)
	if to == 0 {
		return 0, 0
	}
	return to, c.rate(to)
}
