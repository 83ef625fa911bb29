// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
)

// batchQueue checks a job in a node pool with Nomad's queue for batch jobs. Nomad handles
// the next registration when the job before it is placed, so a job whose workers do not fit
// delays all others. A job with count 0 does not. Kolo then starts it by scaling, which
// Nomad does not queue.
func (c *checker) batchQueue() {
	pool := deref(c.job.NodePool, api.NodePoolDefault)
	if deref(c.job.Type, api.JobTypeService) != api.JobTypeBatch || !slices.Contains(c.o.QueuedPools, pool) {
		return
	}
	for _, g := range c.job.TaskGroups[:min(len(c.job.TaskGroups), maxGroups)] {
		if g.Scaling == nil || !deref(g.Scaling.Enabled, true) {
			continue
		}
		if _, ok := g.Scaling.Policy[jobspec.Key]; !ok {
			continue
		}
		to := func(names ...string) []step {
			steps := []step{{name: "group", label: deref(g.Name, "")}}
			for _, name := range names {
				steps = append(steps, step{name: name})
			}
			return steps
		}
		const why = "registers workers, and in node pool %q, which has a batch_queue, the job blocks all later jobs until its workers fit; %s"
		if n := deref(g.Scaling.Min, 0); n > 0 {
			c.warnf("batch-queue", c.src.at(to("scaling", "min")...), "scaling.min = %d "+why, n, pool, "write min = 0 there, and min in the kolo block")
		} else if n := deref(g.Count, 0); n > 0 {
			c.warnf("batch-queue", c.src.at(to("count")...), "count = %d "+why, n, pool, "remove count, so that Kolo admits the job when it fits")
		}
	}
}
