// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"fmt"
	"strings"
)

// Problem is a configuration error in a set of queues.
type Problem struct {
	Queue   string
	Setting string // "" is the queue as a whole
	Text    string
	Remedy  string
}

func (p Problem) String() string {
	where := fmt.Sprintf("queue %q", p.Queue)
	if p.Setting != "" {
		where += ": " + p.Setting
	}
	return where + ": " + p.Text + "; " + p.Remedy
}

type checker struct {
	names    map[string]bool
	owners   map[string]string // of patterns of namespaces
	problems []Problem
}

// check returns what is wrong with a set of queues.
func check(queues []Queue) []Problem {
	c := &checker{names: map[string]bool{}, owners: map[string]string{}}
	for i := range queues {
		c.queue(&queues[i], nil)
	}
	return c.problems
}

func (c *checker) add(q *Queue, setting, remedy, format string, args ...any) {
	c.problems = append(c.problems, Problem{q.Name, setting, fmt.Sprintf(format, args...), remedy})
}

func (c *checker) queue(q, parent *Queue) {
	switch {
	case q.Name == "":
		c.add(q, "", "give it one", "it has no name")
	case c.names[q.Name]:
		c.add(q, "", "jobs name a queue by its name alone, so give one of the two another", "there are two queues of this name")
	case q.Name == Any:
		c.any(q, parent)
	}
	c.names[q.Name] = true
	c.amounts(q)
	for _, ns := range q.Namespaces {
		if owner, taken := c.owners[ns]; taken {
			c.add(q, "namespaces", "remove it from one of the two", "namespace %q is in queue %q already", ns, owner)
		}
		c.owners[ns] = q.Name
	}
	if q.PerNamespace != nil {
		c.perNamespace(q)
	}
	inside := 0
	for i := range q.Queues {
		inside += max(0, q.Queues[i].Guarantee)
		c.queue(&q.Queues[i], q)
	}
	if q.HalfLife != 0 && !(q.HalfLife >= ShortestHalfLife && q.HalfLife <= LongestTime) {
		c.add(q, "half_life", "write 1h or more, or 0s", "%g seconds are too few to compare what queues used", q.HalfLife)
	}
	if b := q.Budget; b != nil && !(b.SlotHours > 0) {
		c.add(q, "budget", "write slot_hours above 0", "a budget of %g slot-hours is none", b.SlotHours)
	}
	if inside > q.Guarantee {
		c.add(q, "guarantee", fmt.Sprintf("write guarantee = %d or more, or guarantee less inside", inside),
			"the queues inside are guaranteed %d slots together, and it is guaranteed %d itself", inside, q.Guarantee)
	}
}

func (c *checker) any(q, parent *Queue) {
	switch {
	case parent != nil:
		c.add(q, "", "write it next to the outermost queues", `"*" stands for the namespaces that no queue of the pool takes, and is inside of queue %q`, parent.Name)
	case q.Guarantee > 0:
		c.add(q, "guarantee", "write a queue for each namespace that is guaranteed slots", `"*" stands for any number of namespaces`)
	case q.Budget != nil:
		c.add(q, "budget", "write a queue for each namespace that has a budget", `"*" stands for any number of namespaces`)
	case len(q.Queues) > 0 || q.PerNamespace != nil:
		c.add(q, "", "write limits of each namespace into it directly", `"*" makes a queue of each namespace, and has others inside`)
	}
}

func (c *checker) amounts(q *Queue) {
	for _, a := range []struct {
		name    string
		n, most int
	}{{"guarantee", q.Guarantee, MostSlots}, {"limit", q.Limit, MostSlots}, {"max_job", q.MaxJob, MostSlots}, {"max_jobs", q.MaxJobs, MostSlots}, {"max_time", q.MaxTime, LongestTime}, {"reclaim_after", q.ReclaimAfter, LongestTime}} {
		if a.n < 0 || a.n > a.most {
			c.add(q, a.name, fmt.Sprintf("write a number up to %d", a.most), "%d is out of range", a.n)
		}
	}
	if q.Weight < 1 || q.Weight > MostWeight {
		c.add(q, "weight", "write a number from 0.001 to 1000; to close a queue, write namespaces = []", "a weight of %s gives it no share", thousandths(q.Weight))
	}
	if q.Stops && q.MaxTime == 0 {
		c.add(q, "max_time_action", "write max_time, or remove it", "the queue has no max_time after which to stop a job")
	}
	if q.Limit > 0 && q.Guarantee > q.Limit {
		c.add(q, "limit", fmt.Sprintf("write limit = %d or more, or a smaller guarantee", q.Guarantee), "its guarantee of %d slots is above its limit of %d", q.Guarantee, q.Limit)
	}
}

func (c *checker) perNamespace(q *Queue) {
	switch p := q.PerNamespace; {
	case len(q.Queues) > 0:
		c.add(q, "per_namespace", "write it into the queues inside", "it makes a queue of each namespace, and the queue has others inside")
	case p.Limit < 0 || p.MaxJob < 0 || p.MaxJobs < 0:
		c.add(q, "per_namespace", "write numbers from 1 on", "a cap is negative")
	case q.Limit > 0 && p.Limit > q.Limit:
		c.add(q, "per_namespace", fmt.Sprintf("write limit = %d or less", q.Limit), "a limit of %d slots for each namespace is above that of the queue, %d", p.Limit, q.Limit)
	}
}

// thousandths shows a weight as it is written.
func thousandths(n int) string {
	s := strings.TrimRight(fmt.Sprintf("%.3f", float64(n)/WeightUnit), "0")
	return strings.TrimSuffix(s, ".")
}
