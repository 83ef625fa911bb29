// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"fmt"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// A job's author chooses its queue, weight and priority, which bypasses Nomad's access
// control and job_max_priority. The operator's queue blocks bound them.

// unlistedWeight is the greatest weight of a job in a queue without a block, in a pool
// that has queue blocks.
const unlistedWeight = 1

// barred returns the problem of a job whose queue does not accept its namespace.
func barred(j *job, pool config.Pool) problem.List {
	rule, ok := pool.RuleOf(j.key.Namespace, j.spec.Queue)
	if !ok || rule.Admits(j.key.Namespace) {
		return nil
	}
	return problem.List{{
		Field:  "scaling.policy.kolo.queue",
		Text:   fmt.Sprintf("queue %q of node pool %q does not accept jobs of namespace %q", j.spec.Queue, j.pool, j.key.Namespace),
		Remedy: "name another queue, or have the operator add the namespace to the queue's block",
	}}
}

// ruled returns the job's spec, limited to what the operator grants. It adds a note
// for each limit that applied, and one if the queue is not the job's tenant. In a pool
// with queue blocks, a queue without a block grants only the defaults: the job's
// priority in Nomad and a weight of 1.
func ruled(j *job, pool config.Pool) (*jobspec.Spec, []string) {
	var notes []string
	in := pool.QueueOf(j.key.Namespace, j.spec.Queue)
	if t := tenant(j, pool); in != "" && in != j.spec.Queue && j.spec.Queue != j.key.Namespace {
		notes = append(notes, fmt.Sprintf("queue %q has no block: the job is in queue %q", j.spec.Queue, in))
	} else if in == "" && t != j.spec.Queue {
		notes = append(notes, fmt.Sprintf("queue %q has no block of its own: the job counts for tenant %q", j.spec.Queue, t))
	}
	if len(pool.Queues) == 0 {
		return j.spec, notes
	}
	rule, ok := pool.RuleOf(j.key.Namespace, j.spec.Queue)
	why := fmt.Sprintf("the bound of queue %q", cmp.Or(in, j.spec.Queue))
	if !ok {
		rule = config.Queue{MaxPriority: max(1, j.priority), MaxWeight: unlistedWeight}
		why = fmt.Sprintf("the bound of queues without a block, such as %q", j.spec.Queue)
	}
	spec := *j.spec
	if most := rule.MaxPriority; most > 0 && spec.Priority > most {
		notes = append(notes, fmt.Sprintf("priority %d counts as %d, %s", spec.Priority, most, why))
		spec.Priority = most
	}
	if most := rule.MaxWeight; most > 0 && spec.Weight > most {
		notes = append(notes, fmt.Sprintf("weight %v counts as %v, %s", spec.Weight, most, why))
		spec.Weight = most
	}
	return &spec, notes
}

// tenant returns the tenant that a job counts for: its queue if the operator has
// written a block for it by name, else its namespace. If a queue has the name of the
// namespace but does not admit it, the namespace is a tenant of its own.
func tenant(j *job, pool config.Pool) string {
	if _, named := pool.Block(j.spec.Queue); named {
		return j.spec.Queue
	}
	if q, named := pool.Block(j.key.Namespace); named && !q.Admits(j.key.Namespace) {
		return "namespace " + j.key.Namespace
	}
	return j.key.Namespace
}
