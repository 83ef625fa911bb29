// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Wait is the word for why a job waits. The reason of the job begins with it.
type Wait string

// Reasons to wait.
const (
	OverLimit         Wait = "over-limit"          // a limit of its queue
	WaitsForGuarantee Wait = "waits-for-guarantee" // it cannot be suspended, and its minimum would take what others are guaranteed
	Reserved          Wait = "reservation"         // the same of what others have reserved for later
	NoRoom            Wait = "no-room"             // its minimum is more than its queue may use now
	InQueue           Wait = "in-queue"            // its queue's policy serves others first
)

// admit decides which of the waiting jobs the policies see: those that may start without
// breaking a limit, or a promise to another queue, if their policy gives them slots.
func (d *decision) admit(waiting []candidate) {
	waiting = interleave(waiting)
	firm, demand := make([]int, len(d.layout.Nodes)), make([]queue.Demand, len(d.layout.Nodes))
	for _, m := range d.members {
		firm[m.leaf] = m.firm
		demand[m.leaf] = queue.Demand{Firm: m.firm, Wanted: m.firm}
	}
	for i := range waiting {
		if c := &waiting[i]; !c.job.Preemptible {
			demand[c.leaf].Wanted += c.least
		}
	}
	// Firm slots are divided as all others, so that no queue has all that no one is
	// guaranteed only since it came first. Gangs that are larger than their part get what
	// is left of it.
	fair := d.layout.Divide(d.slots, demand)
	r := reserves{now: d.layout.Reserve(d.slots, firm, false), later: d.layout.Reserve(d.slots, firm, true)}
	late := waiting[:0:0]
	for i := range waiting {
		c := &waiting[i]
		if !c.job.Preemptible && firm[c.leaf]+c.least > fair[c.leaf] {
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
func interleave(waiting []candidate) []candidate {
	turns := map[*member][]int{}
	for i := range waiting {
		turns[waiting[i].member] = append(turns[waiting[i].member], i)
	}
	out := make([]candidate, len(waiting))
	for _, at := range turns {
		order := slices.Clone(at)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waiting[b].job.Priority, waiting[a].job.Priority) })
		for k := range at {
			out[at[k]] = waiting[order[k]]
		}
	}
	return out
}

// reserves are the accounts of firm slots, without and with what is reserved for later.
type reserves struct{ now, later *queue.Account }

// try admits a job, or notes why not.
func (d *decision) try(c *candidate, firm []int, r reserves) {
	reason := &d.out[c.index].Reason
	if most, at := d.full(c.leaf); at >= 0 {
		*reason = fmt.Sprintf("%s: %d jobs of %s run, and its max_jobs is %d", OverLimit, d.running[at], d.label(at), most)
		return
	}
	if most, at := d.lowest(c.leaf, func(n *queue.Node) int { return n.Limit }); at >= 0 && c.least > most {
		*reason = fmt.Sprintf("%s: its minimum is %d slots, and the limit of %s is %d", OverLimit, c.least, d.label(at), most)
		return
	}
	if !c.job.Preemptible {
		at, ok := r.later.Fits(c.leaf, c.least)
		_, fitsNow := r.now.Fits(c.leaf, c.least)
		switch {
		case !ok && fitsNow:
			*reason = fmt.Sprintf("%s: it is not preemptible, and its minimum of %d slots would take what is reserved for later", Reserved, c.least)
			return
		case !ok && at > 0:
			*reason = fmt.Sprintf("%s: its minimum is %d slots, and the other jobs of %s need more of its limit of %d than it leaves", OverLimit, c.least, d.label(at), d.layout.Nodes[at].Limit)
			return
		case !ok:
			*reason = fmt.Sprintf("%s: it is not preemptible, and its minimum of %d slots would take what other queues are guaranteed; %s has a guarantee of %d slots, of which jobs that cannot be suspended need %d",
				WaitsForGuarantee, c.least, c.label, d.layout.Nodes[c.leaf].Guarantee, firm[c.leaf])
			return
		}
		firm[c.leaf] += c.least
		r.now.Add(c.leaf, c.least)
		r.later.Add(c.leaf, c.least)
	}
	d.ran(c.leaf)
	c.show(c.index, c.job)
}

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

// reason returns what a user reads of a count, and whether slots are given back with it.
func (d *decision) reason(m *member, j *policy.Job, a *policy.Allocation) (string, bool) {
	if j.Priority == last && a.Count <= j.Count {
		a.Reason += "; it ran as long as max_time of its queue, and other jobs go first"
	}
	least := j.Sizes.Above(max(1, j.Min)-1) * max(1, j.PerWorker)
	switch {
	case a.Count == 0 && j.Count == 0 && least > m.most-m.fixed:
		return fmt.Sprintf("%s: its minimum is %d slots, and %s may use %d now", NoRoom, least, m.label, m.most), false
	case a.Count == 0 && j.Count == 0:
		return fmt.Sprintf("%s: %s", InQueue, a.Reason), false
	case a.Count < j.Count && m.now > m.most:
		return fmt.Sprintf("%s; %s gives back slots that it borrowed", a.Reason, m.label), true
	}
	return a.Reason, false
}
