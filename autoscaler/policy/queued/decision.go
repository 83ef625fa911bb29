// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"math"
	"strconv"

	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// decision is one decision while it is being made.
type decision struct {
	p       *Policy
	s       *policy.Snapshot
	before  *memory
	layout  *queue.Layout
	slots   int      // of the pool, fixed ones included
	types   []string // of GPUs
	free    []int    // slots that policies may give, by type
	members []*member
	byLeaf  []*member // by node, nil where there is none
	running []int     // jobs that run, by node
	errors  map[fallible]error
	jobs    []policy.Job // memory for those of all members
	out     []policy.Allocation

	requeueAt float64 // 0 is never
}

// member is a leaf of the tree that has jobs, or slots that are fixed.
type member struct {
	leaf  int
	name  string // unique
	label string // for users

	before state // what is remembered of it

	maxJob   int  // the lowest max_job that applies to it
	maxJobAt int  // the node that has that max_job; -1 if there is none
	timed    bool // a max_time applies to it

	size  int          // jobs of the snapshot that are in the leaf
	index []int        // in Snapshot.Jobs, of jobs
	jobs  []policy.Job // those that its policy sees, with the caps of the queue
	fixed int          // slots that no policy decides about
	now   int          // slots that it holds
	firm  int          // of those, the ones that cannot be taken back

	share  int   // slots that it may use
	due    int   // share of the first division
	most   int   // the most that it could have used in this decision
	typed  []int // of those, the ones that its policy gives, by type
	mostOf []int // the most of these in this decision
	nowOf  []int // those that its jobs hold by type, once they are needed

	order    queue.Order
	late     bool       // its next candidate has to wait for the second turn
	head     *candidate // the first of its jobs that was not admitted, if it has an order
	passed   int        // firm slots of jobs that were admitted after the head
	slack    int        // firm slots that jobs may take after the head
	slackFor int        // the sum of firm slots of other queues for which that holds, plus 1
	hidden   []bool     // by job: not shown to its policy, since it must not overtake

	since float64 // when it began to want slots that others hold
	waits int     // seconds that it has to want them before it has them; 0 is no longer
	gets  int     // slots that it may use until then

	asked  bool
	failed error // of its policy
	answer policy.Decision
	used   int
	seen   seen
	spent  string // once it is needed
}

func (p *Policy) decide(s *policy.Snapshot) (policy.Decision, error) {
	if namespace, alone := p.alone(s); alone {
		return p.undivided(s, namespace)
	}
	d := &decision{p: p, s: s, before: p.load(s), layout: p.tree.Layout(), errors: map[fallible]error{}, out: make([]policy.Allocation, len(s.Jobs))}
	d.jobs = p.take(len(s.Jobs))
	d.capacity()
	candidates := d.sort()
	d.wake(d.layout.At(s.Now))
	d.layout.Remember(s.Past)
	d.layout.Fit(d.slots)
	d.admit(candidates)
	d.divide()
	if err := d.failure(); err != nil {
		return policy.Decision{}, err
	}
	out := d.join()
	p.give(d.jobs)
	return out, nil
}

// capacity sums up the slots of each type.
func (d *decision) capacity() {
	d.types, d.free = d.s.Capacity()
	for _, n := range d.free {
		d.slots += n
	}
	for _, f := range d.s.Fixed {
		d.slots += f.Slots
	}
}

// member returns the leaf of a namespace's jobs in a queue.
func (d *decision) member(q, namespace string) *member {
	leaf := d.layout.Leaf(q, namespace)
	if more := len(d.layout.Nodes) - len(d.byLeaf); more > 0 {
		d.byLeaf = append(d.byLeaf, make([]*member, more)...)
	}
	if d.byLeaf[leaf] == nil {
		m := &member{leaf: leaf, name: d.layout.Nodes[leaf].Name, label: d.label(leaf), order: d.layout.OrderOf(leaf)}
		m.before = d.before.byName[m.name]
		m.maxJob, m.maxJobAt = d.lowest(leaf, func(n *queue.Node) int { return n.MaxJob })
		m.timed = d.longest(leaf, func(n *queue.Node) int { return n.MaxTime }) > 0
		d.byLeaf[leaf] = m
		d.members = append(d.members, m)
	}
	return d.byLeaf[leaf]
}

// label names a node for users.
func (d *decision) label(n int) string {
	switch {
	case n == 0:
		return "the pool"
	case d.layout.Queue(n) == "":
		return "namespace " + strconv.Quote(d.layout.Nodes[n].Name)
	}
	return "queue " + strconv.Quote(d.layout.Nodes[n].Name)
}

// candidate is a job that has no workers.
type candidate struct {
	*member
	job   policy.Job
	index int // in Snapshot.Jobs
	least int // slots that it starts with
}

// sort puts the jobs into the leaves. It returns those that wait.
func (d *decision) sort() (candidates []candidate) {
	for _, f := range d.s.Fixed {
		m := d.member(f.Queue, f.Namespace)
		m.fixed += f.Slots
	}
	of := make([]*member, len(d.s.Jobs))
	for i := range d.s.Jobs {
		d.out[i].Job = d.s.Jobs[i].ID
		of[i] = d.member(d.s.Jobs[i].Queue, d.s.Jobs[i].Namespace)
		of[i].size++
	}
	index, jobs := make([]int, len(d.s.Jobs)), d.jobs
	for _, m := range d.members {
		m.index, index = index[:0:m.size], index[m.size:]
		m.jobs, jobs = jobs[:0:m.size], jobs[m.size:]
	}
	d.running = make([]int, len(d.layout.Nodes))
	for _, f := range d.s.Fixed {
		d.ran(d.member(f.Queue, f.Namespace).leaf)
	}
	for i := range d.s.Jobs {
		m := of[i]
		j := m.show(i, &d.s.Jobs[i])
		per := max(1, j.PerWorker)
		j.Max = max(j.Max, j.Min)
		low := j.Sizes.Above(max(1, j.Min) - 1)
		if m.maxJobAt >= 0 {
			j.Max = max(min(j.Max, m.maxJob/per), j.Min)
		}
		stops := -1
		if m.timed {
			stops = d.outlast(m, j)
		}
		if stops < 0 && j.Count > 0 {
			m.now += j.Count * per
			d.ran(m.leaf)
			if !j.Preemptible {
				m.firm += low * per
			}
			continue
		}
		waits := *j
		m.unshow()
		switch {
		case stops >= 0:
			d.stop(i, stops)
		case m.maxJobAt >= 0 && low*per > m.maxJob:
			d.refuse(i, waiting.OverLimit, "its minimum is %d slots, and max_job of %s is %d", low*per, d.label(m.maxJobAt), m.maxJob)
		default:
			candidates = append(candidates, candidate{m, waits, i, low * per})
		}
	}
	for _, m := range d.members {
		m.now += m.fixed
		m.firm += m.fixed
	}
	return candidates
}

// last is the priority of jobs that go behind all others of their queue.
const last = math.MinInt32

// outlast applies max_time of the queues of a job. If the job has run for that time,
// outlast puts it behind the others of its queue, and returns the node whose rule stops it,
// or -1.
func (d *decision) outlast(m *member, j *policy.Job) (stops int) {
	stops = -1
	d.layout.Path(m.leaf, func(n int) bool {
		node := &d.layout.Nodes[n]
		switch left := float64(node.MaxTime) - (j.RunTime - j.Pardoned); {
		case node.MaxTime == 0:
		case left > 0:
		case node.Stops && j.Permanent:
			j.Priority, j.Max = last, j.Sizes.Above(max(1, j.Min)-1)
		case node.Stops:
			stops = n
		default:
			j.Priority = last
		}
		return true
	})
	return stops
}

// wakeAfter requests another decision at the time at which a job that runs from now on has
// run for max_time.
func (d *decision) wakeAfter(leaf int, j *policy.Job) {
	d.layout.Path(leaf, func(n int) bool {
		if most := d.layout.Nodes[n].MaxTime; most > 0 {
			d.wake(d.s.Now + float64(most) - (j.RunTime - j.Pardoned))
		}
		return true
	})
}

// wake asks for another decision at a time.
func (d *decision) wake(at float64) {
	if at > d.s.Now && (d.requeueAt == 0 || at < d.requeueAt) {
		d.requeueAt = at
	}
}

// show adds a job to those that the policy sees, and returns the copy that it sees.
func (m *member) show(index int, j *policy.Job) *policy.Job {
	m.index = append(m.index, index)
	m.jobs = append(m.jobs, *j)
	return &m.jobs[len(m.jobs)-1]
}

// unshow removes the job that show added last.
func (m *member) unshow() {
	m.index = m.index[:len(m.index)-1]
	m.jobs = m.jobs[:len(m.jobs)-1]
}

// ran counts one more job that runs in a leaf.
func (d *decision) ran(leaf int) {
	d.layout.Path(leaf, func(n int) bool {
		d.running[n]++
		return true
	})
}

// lowest returns the lowest cap of a leaf and the nodes above it, and where it is; -1 is
// nowhere.
func (d *decision) lowest(leaf int, capOf func(*queue.Node) int) (lowest, at int) {
	at = -1
	d.layout.Path(leaf, func(n int) bool {
		if c := capOf(&d.layout.Nodes[n]); c > 0 && (at < 0 || c < lowest) {
			lowest, at = c, n
		}
		return true
	})
	return lowest, at
}

// join makes one decision of the answers.
func (d *decision) join() (out policy.Decision) {
	states := make([]state, 0, len(d.members))
	for _, m := range d.members {
		for k, i := range m.index {
			a := &m.answer.Allocations[k]
			d.explain(m, &m.jobs[k], a)
			if d.out[i] = *a; a.Count > 0 && m.timed {
				d.wakeAfter(m.leaf, &m.jobs[k])
			}
		}
		if m.asked {
			since, owed := m.wanting()
			states = append(states, state{m.name, m.seen, m.answer.State, since, owed})
		}
		d.wake(m.answer.RequeueAt)
	}
	out.Allocations, out.RequeueAt = d.out, d.requeueAt
	out.State = d.p.save(states, d.before)
	return out
}
