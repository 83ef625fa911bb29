// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// OtherQueue is the name under which results count jobs that are in no queue.
const OtherQueue = queue.Any

// QueueResult is the outcome for one queue.
type QueueResult struct {
	Name string  `json:"name"`
	Jobs int     `json:"jobs"`
	JCT  float64 `json:"jct"`  // mean
	Wait float64 `json:"wait"` // mean, from submission to the first worker

	// Used is the GPU-seconds that the queue's jobs held. Entitled is the GPU-seconds that
	// they could have held by the rules of package queue and by their bounds.
	Used     float64 `json:"used"`
	Entitled float64 `json:"entitled"`

	TakenBack int `json:"taken_back"` // GPUs that it gave back to other queues
	Evictions int `json:"evictions"`  // jobs that were suspended for that
}

// Share returns how much the queue used, as a fraction of the GPU-seconds that it was
// entitled to.
func (q *QueueResult) Share() float64 {
	if q.Entitled == 0 {
		return 0
	}
	return q.Used / q.Entitled
}

// queueUse is a queue in a running simulation.
type queueUse struct {
	QueueResult
	entitled int // GPUs, since the last decision
}

// queueOf returns the queue of a job, "" if it is in none.
func (e *engine) queueOf(j *job) string {
	if e.cfg.Queues == nil {
		return ""
	}
	return e.cfg.Queues.Assign(j.Tenant, j.Tenant)
}

// use returns the entry of a job's queue.
func (e *engine) use(j *job) *queueUse {
	name := cmp.Or(e.queueOf(j), OtherQueue)
	at, found := slices.BinarySearchFunc(e.queues, name, func(q queueUse, name string) int { return cmp.Compare(q.Name, name) })
	if !found {
		e.queues = slices.Insert(e.queues, at, queueUse{QueueResult: QueueResult{Name: name}})
	}
	return &e.queues[at]
}

// queuesPass adds up what queues use while time passes.
func (e *engine) queuesPass(dt float64) {
	if e.cfg.Queues == nil {
		return
	}
	for _, j := range e.active {
		e.use(j).Used += dt * float64(j.GPUs(j.n))
	}
	for i := range e.queues {
		e.queues[i].Entitled += dt * float64(e.queues[i].entitled)
	}
}

// layout returns the queues as they are now, and the leaf of each active job.
func (e *engine) layout(total int) (l *queue.Layout, leaves []int) {
	l, leaves = e.cfg.Queues.Layout(), make([]int, len(e.active))
	for i, j := range e.active {
		leaves[i] = l.Leaf(e.queueOf(j), j.Tenant)
	}
	l.At(e.now)
	l.Remember(e.ledger.Past())
	l.Fit(total)
	return l, leaves
}

// charge adds the slots that queues held until now to their accounts, and records what they
// hold from now on. It returns the next time at which shares may change although nothing
// has happened, or 0 if there is none.
func (e *engine) charge() (next float64) {
	if e.cfg.Queues == nil || !e.cfg.Queues.Remembers() {
		return 0
	}
	total, _ := e.cluster.capacity()
	l, leaves := e.layout(total)
	use := make([]ledger.Use, len(l.Nodes))
	for i, j := range e.active {
		u, cost := &use[leaves[i]], 1.0
		if e.cfg.SlotCost != nil && j.n > 0 {
			cost = e.cfg.SlotCost(e.cluster.types[j.typ])
		}
		u.Slots, u.Cost = u.Slots+j.gpus(), u.Cost+cost*float64(j.gpus())
	}
	e.ledger.Charge(l, use, e.now, math.Inf(1))
	return e.ledger.Next(l, e.now)
}

// entitle computes what each queue is entitled to from now on.
func (e *engine) entitle() {
	if e.cfg.Queues == nil {
		return
	}
	for i := range e.queues {
		e.queues[i].entitled = 0
	}
	total, _ := e.cluster.capacity()
	l, leaves := e.layout(total)
	demand := make([]queue.Demand, len(l.Nodes))
	of := make([]*job, len(l.Nodes)) // one of the jobs of a leaf
	for i, j := range e.active {
		d := &demand[leaves[i]]
		d.Wanted += j.GPUs(j.Max)
		if j.n > 0 && !j.Preemptible {
			d.Firm += j.GPUs(j.Min)
		}
		of[leaves[i]] = j
	}
	for n, share := range l.Divide(total, demand) {
		if of[n] != nil {
			e.use(of[n]).entitled += share
		}
	}
}

// tookBack notes that a job gives up workers that its queue borrowed.
func (e *engine) tookBack(j *job, to int) {
	if e.cfg.Queues == nil {
		return
	}
	q := e.use(j)
	q.TakenBack += j.GPUs(j.n) - j.GPUs(to)
	if to == 0 {
		q.Evictions++
	}
}

// queueResults completes the results of the queues.
func (e *engine) queueResults() (out []QueueResult) {
	if e.cfg.Queues == nil {
		return nil
	}
	for i := range e.jobs {
		j := &e.jobs[i]
		q := e.use(j)
		q.Jobs++
		q.JCT += j.result.JCT()
		if j.result.RunTime > 0 {
			q.Wait += j.result.Start - j.Submit
		} else {
			q.Wait += j.result.JCT()
		}
	}
	for i := range e.queues {
		q := e.queues[i].QueueResult
		q.JCT /= float64(max(1, q.Jobs))
		q.Wait /= float64(max(1, q.Jobs))
		out = append(out, q)
	}
	return out
}
