// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// tryer is a policy that may fail, and take its time.
type tryer interface {
	TryAllocate(*policy.Snapshot) (policy.Decision, error)
}

// question is what a policy is asked, and its answer.
type question struct {
	policy policy.Policy
	snap   *policy.Snapshot
	keys   []planner.JobKey // of the snapshot's jobs

	done     bool // the rest is set; guarded by the agent's lock
	decision policy.Decision
	err      error
	took     time.Duration
}

// decide brings a pool's decision up to date and sets its wants, by index of
// v.Jobs. Where a policy of one's own has not answered yet, the decision
// before stays in force; its answer causes a round. It returns when the policy
// wants to be asked again. The caller holds a.mu.
func (a *Controller) decide(v *cluster.View, name string, wants []planner.Want, now time.Time) time.Time {
	p := a.policyOf(name)
	var wake time.Time
	if p.policy != nil {
		if _, slow := p.policy.(tryer); slow {
			wake = a.consult(v, name, p, now)
		} else {
			q := a.question(v, name, p, now)
			q.answer()
			wake = a.accept(name, p, q)
		}
	}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.Pool != name || !movable(j, now) {
			continue
		}
		w, ok := p.last[j.Key]
		if !ok {
			w = planner.Want{Count: j.Count(), Reason: "no decision yet"}
		}
		if p.problem != "" && w.Reason != "" {
			w.Reason += " (decided before the policy failed)"
		}
		wants[i] = w
	}
	return wake
}

// consult takes the answer of a policy of one's own, if there is one, and asks
// anew where something happened since it was asked. At most one question of a
// pool is under way.
func (a *Controller) consult(v *cluster.View, name string, p *pool, now time.Time) time.Time {
	var wake time.Time
	q := p.asked
	switch {
	case q != nil && !q.done:
		p.again = true
		return wake
	case q != nil:
		p.asked = nil
		wake = a.accept(name, p, q)
		if !p.again {
			return wake
		}
	}
	p.again = false
	q = a.question(v, name, p, now)
	p.asked = q
	a.asking.Go(func() {
		answered := *q // its answer is written where nobody looks
		answered.answer()
		a.mu.Lock()
		answered.done = true
		*q = answered
		a.mu.Unlock()
		a.poke()
	})
	return wake
}

func (a *Controller) question(v *cluster.View, name string, p *pool, now time.Time) *question {
	snap, index := a.snapshot(v, name, p, now)
	q := &question{policy: p.policy, snap: snap}
	for _, i := range index {
		q.keys = append(q.keys, v.Jobs[i].Key)
	}
	return q
}

// answer asks the policy.
func (q *question) answer() {
	start := time.Now()
	q.decision, q.err = allocate(q.policy, q.snap)
	q.took = time.Since(start)
}

// accept puts an answer in force, or says why not. It returns when the policy
// wants to be asked again.
func (a *Controller) accept(name string, p *pool, q *question) time.Time {
	a.metrics.decision(name, q.took, q.err)
	if q.err != nil {
		if p.problem != q.err.Error() {
			a.log.Error("policy refused; the last decision stays in force", "pool", name, "policy", q.policy.Name(), "error", q.err)
		}
		p.problem = q.err.Error()
		var later interface{ RetryAt() time.Time }
		if errors.As(q.err, &later) {
			at := later.RetryAt()
			if soon := time.Now().Add(time.Millisecond); at.Before(soon) {
				at = soon
			}
			return at
		}
		return time.Time{}
	}
	if p.problem != "" {
		a.log.Info("the policy decides again", "pool", name, "policy", q.policy.Name())
	}
	p.problem = ""
	a.ledger.States[name] = q.decision.State
	p.last = make(map[planner.JobKey]planner.Want, len(q.keys))
	for k, key := range q.keys {
		al := q.decision.Allocations[k]
		p.last[key] = planner.Want{Count: al.Count, Reason: al.Reason}
	}
	if w := q.decision.Wake; w > 0 && w < q.snap.Now+farAhead {
		return time.UnixMilli(int64(w * 1000))
	}
	return time.Time{}
}

// farAhead is, in seconds, when a policy need not be asked again for its wish:
// it is asked every tick anyway.
const farAhead = 24 * 3600

// check returns an error for a decision that breaks an invariant. Built-in
// policies are tested for that; those of users are not.
func check(s *policy.Snapshot, d policy.Decision) error {
	if len(d.Allocations) != len(s.Jobs) {
		return fmt.Errorf("it answered for %d jobs of %d", len(d.Allocations), len(s.Jobs))
	}
	total, capacity := 0, 0
	for _, n := range s.Nodes {
		capacity += n.GPUs
	}
	grows := false
	for i, al := range d.Allocations {
		j := &s.Jobs[i]
		switch {
		case al.Job != j.ID:
			return fmt.Errorf("answer %d is about job %s and not %s", i, al.Job, j.ID)
		case al.Count < 0 || al.Count > 0 && (al.Count < j.Min && al.Count != j.Count || al.Count > j.Max && al.Count != j.Count):
			return fmt.Errorf("%d workers for job %s, which takes %d to %d", al.Count, j.ID, j.Min, j.Max)
		}
		grows = grows || al.Count > j.Count
		total += al.Count * max(1, j.PerWorker)
	}
	if math.IsNaN(d.Wake) {
		return errors.New("the time at which it wants to be asked again is not a number")
	}
	if total > capacity && grows {
		return fmt.Errorf("%d slots given out of %d", total, capacity)
	}
	return nil
}

// allocate asks a policy, and survives its panic.
func allocate(p policy.Policy, s *policy.Snapshot) (d policy.Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("policy %s panicked: %v", p.Name(), r)
		}
	}()
	if f, ok := p.(tryer); ok {
		if d, err = f.TryAllocate(s); err != nil {
			return d, err
		}
	} else {
		d = p.Allocate(s)
	}
	if err := check(s, d); err != nil {
		return d, fmt.Errorf("policy %s: %w", p.Name(), err)
	}
	return d, nil
}
