// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// anyQueue is the label of the queue block that stands for every queue without
// a block of its own.
const anyQueue = "*"

// Queue is the operator's rule for the jobs of a pool that name a queue. It limits
// what these jobs are granted. If the queue has a block of its own, policies count its
// jobs for the queue; otherwise, for their namespace.
//
//	queue "production" {
//	  namespaces   = ["prod", "team-*"]
//	  max_priority = 70
//	  max_weight   = 4
//	}
//
// A pool with a queue that has more than these keys is divided between its queues
// (Pool.Tree).
type Queue struct {
	Name   string
	Parent string // the queue that contains this one; "" for an outermost queue
	// Namespaces lists the namespaces whose jobs may name the queue. A name that ends
	// in "*" stands for all names with that prefix. Nil means every namespace, empty
	// means none. A nested queue without its own inherits those of its parent.
	Namespaces  []string
	MaxPriority int     // 0 is no bound
	MaxWeight   float64 // 0 is no bound

	// Of a pool that is divided; 0 is no limit.
	Guarantee, Limit, MaxJob, MaxJobs int
	Weight                            float64       // 0 is 1
	MaxTime                           time.Duration // 0 is no limit
	MaxTimeAction                     string        // "" is MaxTimeRequeue
	ReclaimAfter                      time.Duration
	Order                             string        // "" is that of the queue around it
	PerNamespace                      *queue.Caps   // nil is none
	HalfLife                          time.Duration // of past use; 0 forgets it at once
	Budget                            *queue.Budget // nil is none

	Policy  string   // "" is the one around it
	Options hcl.Body // of the policy; nil is none
}

// Admits reports whether jobs of the namespace may name the queue.
func (q Queue) Admits(namespace string) bool {
	return q.Namespaces == nil || slices.ContainsFunc(q.Namespaces, func(pattern string) bool {
		if prefix, glob := strings.CutSuffix(pattern, "*"); glob {
			return strings.HasPrefix(namespace, prefix)
		}
		return pattern == namespace
	})
}

// Rule returns the rule for jobs of the pool that name a queue; false if no rule
// applies to the queue.
func (p Pool) Rule(queue string) (Queue, bool) {
	if q, ok := p.Queues[queue]; ok {
		return q, true
	}
	q, ok := p.Queues[anyQueue]
	return q, ok
}

// Block returns the rule in the block with the queue's own name; false if there is no
// such block.
func (p Pool) Block(queue string) (Queue, bool) {
	q, ok := p.Queues[queue]
	return q, ok && queue != anyQueue
}

// QueueOf returns the queue that a namespace's job is in, if the pool is divided between
// queues; "" if there is none.
func (p Pool) QueueOf(namespace, named string) string {
	if p.Tree == nil {
		return ""
	}
	return p.Tree.Assign(namespace, named)
}

// RuleOf returns the rule for a namespace's job that names a queue: the rule of the queue
// that it is in, or else Rule.
func (p Pool) RuleOf(namespace, named string) (Queue, bool) {
	if name := p.QueueOf(namespace, named); name != "" {
		return p.Queues[name], true
	}
	return p.Rule(named)
}

// Rules returns the pool's rules, ordered by name.
func (p Pool) Rules() []Queue {
	out := make([]Queue, 0, len(p.Queues))
	for _, name := range slices.Sorted(maps.Keys(p.Queues)) {
		out = append(out, p.Queues[name])
	}
	return out
}

// The values of max_time_action in a queue block.
const (
	MaxTimeRequeue = "requeue"
	MaxTimeStop    = "stop"
)

// Bounds of a queue block: a job cannot ask for more.
const (
	highestPriority = 32766 // of Nomad
	greatestWeight  = 1e6
	longestQueue    = 128
)

func (q *Queue) settings() settings {
	return settings{
		define("namespaces", &q.Namespaces, nil, list("namespaces", namespacesExample, namespace), "Namespaces whose jobs may name the queue; a `*` at the end stands for any ending, and `[]` means none. In a divided pool, their jobs are in this queue unless they name another.").or("all"),
		define("max_priority", &q.MaxPriority, 0, whole(1, highestPriority), "Highest priority of a job. A higher one counts as this.").or("no bound"),
		define("max_weight", &q.MaxWeight, 0, fraction(1/greatestWeight, greatestWeight), "Greatest weight of a job. A greater one counts as this.").or("no bound"),
		define("guarantee", &q.Guarantee, 0, whole(0, queue.MostSlots), "Slots that the queue has whenever it wants them."),
		define("limit", &q.Limit, 0, whole(1, queue.MostSlots), "Slots that the queue never exceeds, borrowed ones included.").or("none"),
		define("weight", &q.Weight, 1, fraction(1.0/queue.WeightUnit, queue.MostWeight/queue.WeightUnit), "Relative share of the slots that are not guaranteed, or whose queue does not want them."),
		define("max_job", &q.MaxJob, 0, whole(1, queue.MostSlots), "Most slots of one job.").or("none"),
		define("max_jobs", &q.MaxJobs, 0, whole(1, queue.MostSlots), "Most jobs that run at the same time.").or("none"),
		define("max_time", &q.MaxTime, 0, duration("1m", "8760h"), "Time that a job may run before `max_time_action` applies.").or("none"),
		define("max_time_action", &q.MaxTimeAction, MaxTimeRequeue, oneOf(MaxTimeRequeue, MaxTimeStop), "`requeue`: the other jobs of the queue go first. `stop`: the job [has no workers](#longest-time) until its user registers it again."),
		define("reclaim_after", &q.ReclaimAfter, 0, duration("0s", "8760h"), "Time that the queue must have wanted slots of its share before they are [taken back](#taking-back) from others."),
		define("order", &q.Order, "", oneOf(string(queue.OrderPolicy), string(queue.OrderStrict), string(queue.OrderSkip)), "Which jobs may [overtake](#order-of-a-queue) the first waiting job: with `policy`, those that the policy chooses; with `strict`, none; with `skip`, those that do not delay it. A queue inside another has the other's order unless it sets its own.").or("`policy`"),
		define("half_life", &q.HalfLife, 0, halfLife, "Time after which a borrowed slot-hour [counts half](#shares-over-time). With `0s`, the past does not count.").or("that of the outer queue or pool"),
	}
}

func capSettings(c *queue.Caps) settings {
	return settings{
		define("limit", &c.Limit, 0, whole(1, queue.MostSlots), "Most slots of each namespace.").or("none"),
		define("max_job", &c.MaxJob, 0, whole(1, queue.MostSlots), "Most slots of one job.").or("none"),
		define("max_jobs", &c.MaxJobs, 0, whole(1, queue.MostSlots), "Most jobs of each namespace that run at the same time.").or("none"),
	}
}

// namespacePattern is a namespace of Nomad, or the beginning of one and "*".
var namespacePattern = regexp.MustCompile(`^([a-zA-Z0-9-]{1,128}|[a-zA-Z0-9-]{0,127}\*)$`)

const namespacesExample = `["team-a", "prod-*"]`

// namespace accepts a name, which may end in "*".
func namespace(entry int, s string) (name, complaint string) {
	if !namespacePattern.MatchString(s) {
		return "", fmt.Sprintf(`Entry %d is no namespace; write names of letters, digits and dashes, of which the last character may be "*", such as %s.`, entry, namespacesExample)
	}
	return s, ""
}
