// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// If all jobs are of one namespace, a pool that is divided between namespaces decides like
// an undivided one: the same counts, types, reasons and times, decision after decision.
func TestPolicy_OneNamespaceIsUndivided(t *testing.T) {
	for _, line := range builtin.Policies.Names() {
		t.Run(line, func(t *testing.T) {
			for seed := range uint64(30) {
				c := randomCluster(t, seed, line)
				c.p = New(treeOf(t), policyOf(t, line), nil)
				pot := &table{t: t, p: policyOf(t, line)}
				var state []byte
				for range 25 {
					c.happen(true)
					for i := range c.s.Jobs {
						c.s.Jobs[i].Queue, c.s.Jobs[i].Namespace = "", "only"
					}
					c.s.Changed = c.rng.IntN(2) == 0
					pot.s = c.s
					pot.s.Jobs, pot.s.State = slices.Clone(c.s.Jobs), state
					pot.decide()
					c.decide()
					must.Eq(t, pot.last.Allocations, c.last.Allocations)
					must.Eq(t, pot.last.RequeueAt, c.last.RequeueAt)
					state = pot.s.State
				}
			}
		})
	}
}

// If jobs of a second namespace arrive, the pool is divided, and the first namespace keeps
// the state of its policy.
func TestPolicy_ASecondNamespace(t *testing.T) {
	w := newTable(t, 16, New(treeOf(t), policyOf(t, "kolo"), nil))
	w.job("a1", "a", 1, 16)
	w.decide().decide()
	alone := w.p.(*Policy).load(&w.s).byName["a"].State
	must.SliceNotEmpty(t, alone)
	w.job("b1", "b", 1, 16)
	must.Eq(t, "a1=4 b1=4", w.decide().decide().counts())
	w.s.Jobs = w.s.Jobs[:1]
	w.s.Changed = true
	must.Positive(t, w.decide().s.Jobs[0].Count)
	must.False(t, New(treeOf(t, q(queue.Any, 0, func(q *queue.Queue) { q.Limit = 2 })), policyOf(t, "fifo"), nil).(*Policy).tree.Plain())
	limited := newTable(t, 16, New(treeOf(t, q(queue.Any, 0, func(q *queue.Queue) { q.Limit = 2 })), policyOf(t, "elastic-fifo"), map[string]policy.Policy{}))
	limited.job("a1", "a", 1, 16)
	must.Eq(t, "a1=2", limited.decide().counts())
}
