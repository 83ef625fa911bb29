// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// admit decides which of the waiting jobs the policies see: those that may start without
// breaking a limit, or a promise to another queue, if their policy gives them slots.
func (d *decision) admit(candidates []candidate) {
	candidates = interleave(candidates)
	firm, demand := make([]int, len(d.layout.Nodes)), make([]queue.Demand, len(d.layout.Nodes))
	for _, m := range d.members {
		firm[m.leaf] = m.firm
		demand[m.leaf] = queue.Demand{Firm: m.firm, Wanted: m.firm}
	}
	for i := range candidates {
		if c := &candidates[i]; !c.job.Preemptible {
			demand[c.leaf].Wanted += c.least
		}
	}
	// Firm slots are divided as all others, so that no queue has all that no one is
	// guaranteed only since it came first. Gangs that are larger than their part get what
	// is left of it.
	fair := d.layout.Divide(d.slots, demand)
	r := reserves{firm: d.layout.Use(d.slots, firm), now: d.layout.Reserve(d.slots, firm, false), later: d.layout.Reserve(d.slots, firm, true), leftover: d.leftover(candidates)}
	late := candidates[:0:0]
	for i := range candidates {
		c := &candidates[i]
		if c.late = c.ordered() && c.late || !c.job.Preemptible && firm[c.leaf]+c.least > fair[c.leaf]; c.late {
			late = append(late, *c)
			continue
		}
		d.try(c, firm, r)
	}
	for i := range late {
		d.try(&late[i], firm, r)
	}
	for _, m := range d.members {
		m.inOrder()
	}
}

// interleave orders jobs by priority within their leaf. Between leaves, priority does not
// count: the first of each leaf takes the turn of the one that came first, and so on.
func interleave(candidates []candidate) []candidate {
	turns := map[*member][]int{}
	for i := range candidates {
		turns[candidates[i].member] = append(turns[candidates[i].member], i)
	}
	out := make([]candidate, len(candidates))
	for _, at := range turns {
		order := slices.Clone(at)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(candidates[b].job.Priority, candidates[a].job.Priority) })
		for k := range at {
			out[at[k]] = candidates[order[k]]
		}
	}
	return out
}

// reserves holds the accounts of firm slots: without guarantees, with guarantees, and with
// the slots that are reserved for later as well. leftover holds the slots that leaves which
// have spent their budget may have.
type reserves struct {
	firm, now, later *queue.Account
	leftover         []int
}

// try admits a job, or notes why not. In a queue with an order, the first job that is not
// admitted is the head of those that wait.
func (d *decision) try(c *candidate, firm []int, r reserves) {
	switch {
	case c.head != nil && !d.mayPass(c, firm):
		d.refuse(c.index, waiting.InQueue, "%s", c.behind(c.head.job.ID))
	case !d.admits(c, firm, r) && c.head == nil && c.ordered() && !d.never(&c.job, c.leaf):
		c.head = c
	}
}

// admits admits a job that nothing keeps behind others, or notes why not.
func (d *decision) admits(c *candidate, firm []int, r reserves) bool {
	if d.unpaid(c, firm, r.leftover) {
		d.refuse(c.index, waiting.Budget, "%s", d.spent(c.member))
		return false
	}
	if most, at := d.full(c.leaf); at >= 0 {
		d.refuse(c.index, waiting.OverLimit, "%d jobs of %s run, and its max_jobs is %d", d.running[at], d.label(at), most)
		return false
	}
	if most, at := d.lowest(c.leaf, func(n *queue.Node) int { return n.Limit }); at >= 0 && c.least > most {
		d.refuse(c.index, waiting.OverLimit, "its minimum is %d slots, and the limit of %s is %d", c.least, d.label(at), most)
		return false
	}
	if !c.job.Preemptible {
		at, ok := r.later.Fits(c.leaf, c.least)
		_, fitsNow := r.now.Fits(c.leaf, c.least)
		_, fitsFirm := r.firm.Fits(c.leaf, c.least)
		switch {
		case !ok && d.layout.Nodes[c.leaf].Spent > 0:
			d.refuse(c.index, waiting.Budget, "%s", d.spent(c.member))
			return false
		case !ok && fitsNow:
			d.refuse(c.index, waiting.Reservation, "it is not preemptible, and its minimum of %d slots would take slots that are reserved for later", c.least)
			return false
		case !ok && at > 0:
			d.refuse(c.index, waiting.OverLimit, "its minimum is %d slots, and the other jobs of %s need more of its limit of %d than it leaves", c.least, d.label(at), d.layout.Nodes[at].Limit)
			return false
		case !ok && !fitsFirm:
			d.refuse(c.index, waiting.NoRoom, "its minimum is %d slots, and jobs that cannot be suspended leave %d of the %d slots of the pool", c.least, max(0, r.firm.Left()), d.slots)
			return false
		case !ok:
			d.refuse(c.index, waiting.WaitsForGuarantee,
				"it is not preemptible, and its minimum of %d slots would take what other queues are guaranteed; %s has a guarantee of %d slots, of which jobs that cannot be suspended need %d",
				c.least, c.label, d.layout.Nodes[c.leaf].Guarantee, firm[c.leaf])
			return false
		}
		firm[c.leaf] += c.least
		r.firm.Add(c.leaf, c.least)
		r.now.Add(c.leaf, c.least)
		r.later.Add(c.leaf, c.least)
	}
	d.ran(c.leaf)
	c.show(c.index, &c.job)
	return true
}

// refuse notes why a job waits.
func (d *decision) refuse(index int, why waiting.Reason, format string, args ...any) {
	d.out[index].Wait = why
	d.out[index].Reason = sentence(why, fmt.Sprintf(format, args...))
}

// stop takes all workers from a job that has run for max_time.
func (d *decision) stop(index, node int) {
	most := time.Duration(d.layout.Nodes[node].MaxTime) * time.Second
	d.refuse(index, waiting.OverLimit, "it ran for %v, the max_time of %s, and is stopped; register it again to run it again", most, d.label(node))
	d.out[index].Stops = true
}

// sentence returns the reason of a job that waits, as a user reads it.
func sentence(why waiting.Reason, text string) string { return string(why) + ": " + text }

// full returns the node at or above a leaf in which no more jobs may run, and how many
// may; at is -1 if there is none.
func (d *decision) full(leaf int) (most, at int) {
	at = -1
	d.layout.Path(leaf, func(n int) bool {
		if m := d.layout.Nodes[n].MaxJobs; m > 0 && d.running[n] >= m {
			most, at = m, n
		}
		return at < 0
	})
	return most, at
}

// inOrder sorts the jobs of a member as they are in the snapshot.
func (m *member) inOrder() {
	if slices.IsSorted(m.index) {
		return
	}
	order := make([]int, len(m.index))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return m.index[a] - m.index[b] })
	index, jobs := make([]int, len(order)), make([]policy.Job, len(order))
	for k, at := range order {
		index[k], jobs[k] = m.index[at], m.jobs[at]
	}
	m.index, m.jobs = index, jobs
}

// ceded reports whether a queue has fewer slots of a job's GPU type than its jobs hold.
func (d *decision) ceded(m *member, j *policy.Job) bool {
	if len(d.types) == 1 || m.mostOf == nil {
		return false
	}
	t := slices.Index(d.types, cmp.Or(j.Type, j.Held))
	return t >= 0 && d.holds(m)[t] > m.mostOf[t]
}

// holds returns the slots that the jobs of a queue hold by type, which it computes once.
func (d *decision) holds(m *member) []int {
	if m.nowOf == nil {
		m.nowOf = d.held(m, false)
	}
	return m.nowOf
}

// explain completes the reason of an allocation with the part that the queue has in it.
func (d *decision) explain(m *member, j *policy.Job, a *policy.Allocation) {
	if j.Priority == last && a.Count <= j.Count {
		a.Reason += "; it has run for the max_time of its queue, so other jobs go first"
	}
	least, most := j.Sizes.Above(max(1, j.Min)-1)*max(1, j.PerWorker), m.most
	if a.Wait == waiting.NoRoom {
		most = m.share // its policy was asked last with these
	}
	spent := d.layout.Nodes[m.leaf].Spent > 0
	switch {
	case a.Count == 0 && j.Count == 0 && least > most-m.fixed && spent:
		a.Wait, a.Repeats = waiting.Budget, false
		a.Reason = sentence(a.Wait, d.spent(m))
	case a.Count == 0 && j.Count == 0 && least > most-m.fixed:
		a.Wait, a.Repeats = waiting.NoRoom, false
		a.Reason = sentence(a.Wait, fmt.Sprintf("its minimum is %d slots, and %s may use %d now", least, m.label, most)+m.patience())
	case a.Count == 0 && j.Count == 0:
		a.Wait = cmp.Or(a.Wait, waiting.InQueue)
		a.Reason = sentence(a.Wait, a.Reason)
	case a.Count < j.Count && (m.now > m.most || d.ceded(m, j)):
		a.Reclaimed = true
		if a.Reason += "; " + m.label + " gives back slots that it borrowed"; spent {
			a.Reason += ": " + d.spent(m)
		}
	}
}
