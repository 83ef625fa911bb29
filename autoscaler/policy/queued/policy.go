// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Policy is a policy that divides a pool between queues. It is pure if the queues'
// policies are pure.
type Policy struct {
	tree *queue.Tree
	base policy.Policy
	own  map[string]policy.Policy

	loaded, saved atomic.Pointer[memory] // the last ones

	// jobs holds memory for the jobs of a decision, which are the largest part of it. It is
	// nil while a decision uses it, and in a Fallible: an external policy that takes too long
	// may still read them after the decision.
	jobs     atomic.Pointer[[]policy.Job]
	fallible bool
}

var _ policy.Policy = (*Policy)(nil)

// fallible is a policy that may fail, and may be slow.
type fallible interface {
	TryAllocate(*policy.Snapshot) (policy.Decision, error)
}

// Fallible is a Policy in which the policy of a queue may fail.
type Fallible struct{ *Policy }

// New returns a policy that divides a pool by tree. Within the queue of a name, and within
// the queues inside it that have no own policy, it asks own[name]; for namespaces outside
// of all queues, own[queue.Any]; in all other cases, base. The result is a Fallible if one
// of these policies may fail.
func New(tree *queue.Tree, base policy.Policy, own map[string]policy.Policy) policy.Policy {
	p := &Policy{tree: tree, base: base, own: own}
	_, p.fallible = base.(fallible)
	for _, of := range own {
		_, ok := of.(fallible)
		p.fallible = p.fallible || ok
	}
	if p.fallible {
		return Fallible{p}
	}
	return p
}

// Name returns the name of the policy of queues that have no own policy.
func (p *Policy) Name() string { return p.base.Name() }

// Allocate implements policy.Policy. The jobs of a queue whose policy breaks a rule keep
// what they have.
func (p *Policy) Allocate(s *policy.Snapshot) policy.Decision {
	d, err := p.decide(s)
	if err != nil { // New makes a Fallible where there can be one
		return policy.Decision{}
	}
	return d
}

// TryAllocate returns a decision. If the policy failed in some queues, the jobs of these
// keep what they have. If it failed in all queues that have jobs, TryAllocate returns why.
func (f Fallible) TryAllocate(s *policy.Snapshot) (policy.Decision, error) { return f.decide(s) }

// ask asks the policy of a queue, and keeps to the order of the queue.
func (d *decision) ask(m *member) {
	m.hidden = nil
	d.consult(m, nil)
	if m.ordered() {
		d.inTurn(m)
	}
}

// consult asks the policy of a queue. The policy does not see the jobs that are set aside.
// An error, or an answer that breaks a rule, leaves the jobs as they are, within the slots
// of the queue.
func (d *decision) consult(m *member, aside *aside) {
	s := d.snapshot(m, aside)
	p := d.policyOf(m)
	answer, err := d.answer(p, s)
	switch {
	case err != nil:
		m.failed = fmt.Errorf("%s: %w", m.label, err)
		answer = keep(s, fmt.Sprintf("keeps its size: policy %s of its queue failed: %v", p.Name(), err))
		answer.State = s.State
	case policy.Validate(s, &answer) != nil:
		answer = keep(s, fmt.Sprintf("keeps its size: policy %s of its queue broke a rule: %v", p.Name(), policy.Validate(s, &answer)))
	}
	m.answer, m.asked = aside.expand(m, answer), true
	d.cut(m)
}

// answer returns the answer of a policy, or its error. A policy that has failed is not
// asked again in this decision: it may take seconds to do so.
func (d *decision) answer(p policy.Policy, s *policy.Snapshot) (policy.Decision, error) {
	f, ok := p.(fallible)
	if !ok {
		return p.Allocate(s), nil
	}
	if err := d.errors[f]; err != nil {
		return policy.Decision{}, err
	}
	answer, err := f.TryAllocate(s)
	if err != nil {
		d.errors[f] = err
		var later interface{ RetryAt() time.Time }
		if errors.As(err, &later) {
			d.wake(float64(later.RetryAt().UnixMilli()) / 1000)
		}
	}
	return answer, err
}

// failure returns the error of a queue if all that were asked have failed.
func (d *decision) failure() (err error) {
	for _, m := range d.members {
		switch {
		case m.asked && m.failed == nil:
			return nil
		case err == nil:
			err = m.failed
		}
	}
	return err
}

// policyOf returns the policy of a queue: its own, or that of the nearest one around it.
func (d *decision) policyOf(m *member) (out policy.Policy) {
	out = d.p.base
	d.layout.Path(m.leaf, func(n int) bool {
		own, ok := d.p.own[cmp.Or(d.layout.Queue(n), queue.Any)]
		if ok {
			out = own
		}
		return !ok
	})
	return out
}

// keep returns the decision that changes nothing.
func keep(s *policy.Snapshot, why string) (d policy.Decision) {
	for i := range s.Jobs {
		d.Allocations = append(d.Allocations, policy.Allocation{Job: s.Jobs[i].ID, Count: s.Jobs[i].Count, Reason: why})
	}
	return d
}

// snapshot returns a queue as its policy sees it: its jobs without those that are set aside,
// and its slots of each type.
func (d *decision) snapshot(m *member, aside *aside) *policy.Snapshot {
	s := &policy.Snapshot{
		Now: d.s.Now, Seed: d.s.Seed, ResizeCost: d.s.ResizeCost, Context: d.s.Context, Jobs: aside.rest(m), State: m.before.State,
	}
	s.Nodes = make([]policy.Node, len(d.types))
	for t, typ := range d.types {
		s.Nodes[t] = policy.Node{ID: m.label + " " + typ, Type: typ, GPUs: m.typed[t], Free: m.typed[t]}
	}
	for i := range m.jobs {
		if t := slices.Index(d.types, m.jobs[i].Held); t >= 0 {
			s.Nodes[t].Free = max(0, s.Nodes[t].Free-m.jobs[i].Count*max(1, m.jobs[i].PerWorker))
		}
	}
	if aside == nil {
		d.see(m, s)
	}
	s.Changed = aside != nil || d.s.First || m.seen.Jobs != m.before.Jobs || m.seen.Slots != m.before.Slots
	return s
}
