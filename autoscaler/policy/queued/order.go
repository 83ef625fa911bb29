// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// The head of a queue with an order is the first of its jobs that waits. In a strict queue,
// no job starts before the head. In a queue that skips, a job may start before it, if it
// does not delay the head:
//
//   - Slots that it can give back are lent to it. It gives them back when the head can start
//     with them.
//   - Firm slots are lent to it only if the head could not use them, whichever of the jobs
//     before the head end first (slack). The lengths of jobs are never taken into account,
//     because no one knows them, and what a job declares need not be true.

// mostTurns limits how often the policy of a queue is asked again because it wants to start
// jobs that must not overtake.
const mostTurns = 4

// again is the time, in seconds, until the next decision after one that gave the head its
// slots and did not change the rest of the queue.
const again = 1

func (m *member) ordered() bool { return m.order != queue.OrderPolicy }

// precedes reports whether job j comes before job o in the order of a queue. i and k are
// their indexes in the snapshot.
func precedes(j *policy.Job, i int, o *policy.Job, k int) bool {
	return cmp.Or(cmp.Compare(o.Priority, j.Priority), cmp.Compare(i, k)) < 0
}

// low returns the smallest number of slots with which a job starts.
func low(j *policy.Job) int { return j.Sizes.Above(max(1, j.Min)-1) * max(1, j.PerWorker) }

func (m *member) behind(id string) string {
	if m.order == queue.OrderStrict {
		return fmt.Sprintf("job %s waits before it, and no job overtakes in %s", id, m.label)
	}
	return fmt.Sprintf("job %s waits before it, and would be delayed", id)
}

// never reports whether a job cannot start even if all slots become free. Such a job is not
// a head.
func (d *decision) never(j *policy.Job, leaf int) bool {
	least, typed := low(j), d.slots
	if t := slices.Index(d.types, j.Type); j.Type != "" && t >= 0 {
		typed = d.free[t]
	} else if j.Type != "" && len(d.types) > 0 {
		typed = 0
	}
	if least > typed || least > d.layout.Use(d.slots, nil).Room(leaf) {
		return true
	}
	return !j.Preemptible && least > d.layout.Reserve(d.slots, nil, true).Room(leaf)
}

// slack returns how many slots jobs behind the head may take without delaying it. The queue
// has at most most slots, and the head needs least of them. ahead holds the slots of the
// jobs before the head, which may end in any order: at the moment when enough of them have
// ended for the head to start, it can still start.
func slack(most, least int, ahead []int) int {
	room := most - least
	if room <= 0 {
		return 0
	}
	// Bit n is set if some of the jobs ahead hold n slots together.
	sums := big.NewInt(1)
	fits := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(room)+1), big.NewInt(1))
	for _, n := range ahead {
		if n > 0 && n <= room {
			sums.Or(sums, new(big.Int).Lsh(sums, uint(n)))
			sums.And(sums, fits)
		}
	}
	return room - (sums.BitLen() - 1)
}

// head is a job that no job of its queue may delay.
type head struct {
	job   *policy.Job
	index int // in Snapshot.Jobs
	at    int // in the jobs that the policy of its queue sees, -1 if it is not admitted
}

// headOf returns the head of a queue after an answer of its policy. It returns nil if no
// job waits.
func (d *decision) headOf(m *member) *head {
	var h *head
	if m.head != nil {
		h = &head{&m.head.job, m.head.index, -1}
	}
	for k := range m.jobs {
		j, a := &m.jobs[k], &m.answer.Allocations[k]
		if j.Count > 0 || a.Count > 0 || a.Wait == waiting.Constraint || h != nil && !precedes(j, m.index[k], h.job, h.index) {
			continue
		}
		if !d.never(j, m.leaf) {
			h = &head{j, m.index[k], k}
		}
	}
	return h
}

// mayPass reports whether a job may start although the head of its queue was not admitted.
// Only firm slots count, because either the head is firm, or no job of the queue is
// admitted.
func (d *decision) mayPass(c *candidate, firm []int) bool {
	switch {
	case c.order == queue.OrderStrict:
		return false
	case d.lastPlace(c.leaf):
		return false // it is the head's
	case c.job.Preemptible:
		return true
	}
	if c.passed+c.least > d.slackOf(c.member, firm) {
		return false
	}
	c.passed += c.least
	return true
}

// slackOf returns how many firm slots may be taken by jobs that pass the head of a queue,
// if the head was not admitted. It computes the number again only if the firm slots of
// other queues have changed.
func (d *decision) slackOf(m *member, firm []int) int {
	sum := 1
	for leaf, n := range firm {
		if leaf != m.leaf {
			sum += n
		}
	}
	if sum == m.slackFor {
		return m.slack
	}
	others := slices.Clone(firm)
	others[m.leaf] = m.fixed
	most := d.layout.Reserve(d.slots, others, true).Room(m.leaf)
	if m.head.least > most { // as it will be when firm slots of other queues are free
		most = d.layout.Reserve(d.slots, nil, true).Room(m.leaf)
	}
	ahead, taken := m.minima(&head{&m.head.job, m.head.index, -1}, true)
	m.slack, m.slackFor = slack(most, m.head.least, ahead)-taken, sum
	return m.slack
}

// lastPlace reports whether only one more job may run in a leaf.
func (d *decision) lastPlace(leaf int) (last bool) {
	d.layout.Path(leaf, func(n int) bool {
		most := d.layout.Nodes[n].MaxJobs
		last = most > 0 && d.running[n] == most-1
		return !last
	})
	return last
}

// minima returns the minima of the jobs before the head, and the number of firm slots that
// running jobs behind it hold. If firm is set, the minima of jobs that can be suspended are
// not included.
func (m *member) minima(h *head, firm bool) (ahead []int, behind int) {
	for k := range m.jobs {
		switch j := &m.jobs[k]; {
		case precedes(j, m.index[k], h.job, h.index):
			if !firm || !j.Preemptible {
				ahead = append(ahead, low(j))
			}
		case j.Count > 0 && !j.Preemptible:
			behind += low(j)
		}
	}
	return ahead, behind
}

// inTurn asks the policy of a queue again until it keeps to the order. Jobs that the policy
// started although they must not overtake are hidden from it.
func (d *decision) inTurn(m *member) {
	for turn := 0; ; turn++ {
		h := d.headOf(m)
		if h == nil || !d.hide(m, h) {
			break
		}
		if turn == mostTurns {
			m.drop()
			break
		}
		d.consult(m, &aside{out: m.hidden, why: m.behind(h.job.ID)})
	}
	if h := d.headOf(m); h != nil && m.order == queue.OrderSkip {
		d.advance(m, h)
	}
	if m.used < m.share && slices.Contains(m.hidden, true) && d.headOf(m) == nil {
		m.seen.Slots = 0 // the head starts, and there is room for jobs behind it
		d.wake(d.s.Now + again)
	}
}

// hide marks the jobs that must not start before the head. It reports whether the policy
// started one of them.
func (d *decision) hide(m *member, h *head) (started bool) {
	if m.hidden == nil {
		m.hidden = make([]bool, len(m.jobs))
	}
	taken, most := 0, 0
	if m.order == queue.OrderSkip {
		var ahead []int
		ahead, taken = m.minima(h, false)
		most = slack(d.most(m, low(h.job)), low(h.job), ahead)
	}
	for _, k := range m.line() {
		j := &m.jobs[k]
		if j.Count > 0 || m.hidden[k] || !precedes(h.job, h.index, j, m.index[k]) {
			continue
		}
		starts := m.answer.Allocations[k].Count > 0
		switch {
		case m.order == queue.OrderStrict:
			m.hidden[k] = true
		case j.Preemptible || !starts:
			continue
		case taken+low(j) <= most:
			taken += low(j)
			continue
		default:
			m.hidden[k] = true
		}
		started = started || starts
	}
	return started
}

// most returns the largest number of slots that jobs of a queue may have. This is the
// queue's share of the first division. If that is too small for the head, it is the number
// of all slots that are not firm slots of other queues.
func (d *decision) most(m *member, least int) int {
	if n := m.due - m.fixed; n >= least {
		return n
	}
	firm := make([]int, len(d.layout.Nodes))
	for _, o := range d.members {
		firm[o.leaf] = o.firm
	}
	firm[m.leaf] = m.fixed
	return d.layout.Use(d.slots, firm).Room(m.leaf)
}

// line returns the jobs of a queue in the queue's order.
func (m *member) line() []int {
	out := make([]int, len(m.jobs))
	for k := range out {
		out[k] = k
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(m.jobs[b].Priority, m.jobs[a].Priority) })
	return out
}

// drop takes the slots from hidden jobs that their policy has started nevertheless.
func (m *member) drop() {
	for k, hidden := range m.hidden {
		if a := &m.answer.Allocations[k]; hidden && a.Count > 0 {
			m.used -= m.slots(k)
			a.Count, a.Repeats = 0, false
		}
	}
}

// advance starts the head with slots that jobs behind it can give back, if its policy then
// starts it. A job that ran before was suspended by its policy, which also decides when it
// runs again.
func (d *decision) advance(m *member, h *head) {
	if h.at < 0 || h.job.FirstStart > 0 || h.job.RunTime > 0 || low(h.job) > m.share-m.fixed {
		return
	}
	back := &aside{out: make([]bool, len(m.jobs)), capped: make([]bool, len(m.jobs)), why: fmt.Sprintf("makes room for job %s, which waits before it", h.job.ID)}
	free := m.share - m.used
	for k := range m.jobs {
		if j := &m.jobs[k]; precedes(h.job, h.index, j, m.index[k]) {
			back.capped[k] = j.Count > 0 && !j.Preemptible
			back.out[k] = !back.capped[k]
			free += m.slots(k)
			if back.capped[k] {
				free -= low(j)
			}
		}
	}
	if free < low(h.job) {
		return
	}
	answer, used := m.answer, m.used
	if d.consult(m, back); m.answer.Allocations[h.at].Count == 0 {
		m.answer, m.used = answer, used
		return
	}
	m.seen.Slots = 0 // the others have what is left in the next decision
	d.wake(d.s.Now + again)
}

// aside holds the jobs of a queue that its policy does not see when it is asked, and those
// of which it sees only the minimum.
type aside struct {
	out, capped []bool
	why         string
}

// rest returns the jobs that the policy sees.
func (a *aside) rest(m *member) []policy.Job {
	if a == nil {
		return m.jobs
	}
	out := make([]policy.Job, 0, len(m.jobs))
	for k := range m.jobs {
		if a.out[k] {
			continue
		}
		j := m.jobs[k]
		if a.capped != nil && a.capped[k] {
			j.Max = j.Sizes.Above(max(1, j.Min) - 1)
		}
		out = append(out, j)
	}
	return out
}

// expand returns the answer for all jobs of the queue.
func (a *aside) expand(m *member, answer policy.Decision) policy.Decision {
	if a == nil {
		return answer
	}
	all, next := make([]policy.Allocation, len(m.jobs)), 0
	for k := range m.jobs {
		if a.out[k] {
			all[k] = policy.Allocation{Job: m.jobs[k].ID, Reason: a.why, Wait: waiting.InQueue}
			continue
		}
		all[k] = answer.Allocations[next]
		next++
	}
	answer.Allocations = all
	return answer
}
