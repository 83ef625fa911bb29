// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
)

// TestView_OperatorsRulesOverQueues has a job of another team ask for the first place in a
// queue of which that team is no owner.
func TestView_OperatorsRulesOverQueues(t *testing.T) {
	byNamespace := `queue "made-up" has no block of its own: the job counts for tenant "team-b"`
	grab := map[string]any{"queue": "production", "priority": 100.0, "weight": 1e6}
	rules := func(queues ...config.Queue) map[string]config.Queue {
		out := map[string]config.Queue{}
		for _, q := range queues {
			out[q.Name] = q
		}
		return out
	}
	for name, tc := range map[string]struct {
		namespace string
		asks      map[string]any
		rules     map[string]config.Queue
		problem   string
		priority  int
		weight    float64
		notes     []string
	}{
		"no rules": {namespace: "team-b", asks: grab, priority: 100, weight: 1e6, notes: []string{`queue "production" has no block of its own: the job counts for tenant "team-b"`}},
		"a queue of others": {namespace: "team-b", asks: grab, rules: rules(config.Queue{Name: "production", Namespaces: []string{"prod"}}),
			problem: `queue "production" of node pool "gpu" does not accept jobs of namespace "team-b"`},
		"a queue of no namespace": {namespace: "team-b", asks: map[string]any{}, rules: rules(config.Queue{Name: "*", Namespaces: []string{}}),
			problem: `queue "team-b" of node pool "gpu" does not accept jobs of namespace "team-b"`},
		"its own queue, without bounds": {namespace: "prod", asks: grab, rules: rules(config.Queue{Name: "production", Namespaces: []string{"prod"}}), priority: 100, weight: 1e6},
		"its own queue, bounded": {namespace: "prod", asks: grab, rules: rules(config.Queue{Name: "production", MaxPriority: 70, MaxWeight: 4}), priority: 70, weight: 4,
			notes: []string{`priority 100 counts as 70, the bound of queue "production"`, `weight 1e+06 counts as 4, the bound of queue "production"`}},
		"within the bounds": {namespace: "prod", asks: map[string]any{"queue": "production"}, rules: rules(config.Queue{Name: "production", MaxPriority: 70, MaxWeight: 4}), priority: 50, weight: 1},
		"its priority in Nomad": {namespace: "prod", asks: map[string]any{"queue": "production"}, rules: rules(config.Queue{Name: "production", MaxPriority: 40}), priority: 40, weight: 1,
			notes: []string{`priority 50 counts as 40, the bound of queue "production"`}},
		"the rule of all others": {namespace: "team-b", asks: map[string]any{"queue": "made-up", "priority": 90.0}, rules: rules(config.Queue{Name: "*", MaxPriority: 60}), priority: 60, weight: 1,
			notes: []string{byNamespace, `priority 90 counts as 60, the bound of queue "made-up"`}},
		"past the rules by another name": {namespace: "team-b", asks: map[string]any{"queue": "made-up", "priority": 90.0, "weight": 3.0},
			rules: rules(config.Queue{Name: "production", MaxPriority: 40}), priority: 50, weight: 1,
			notes: []string{byNamespace, `priority 90 counts as 50, the bound of queues without a block, such as "made-up"`, `weight 3 counts as 1, the bound of queues without a block, such as "made-up"`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.pools["gpu"] = config.Pool{Name: "gpu", Device: "gpu", Queues: tc.rules}
			f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
			j := f.job("grabber", "gpu", groupSpec{name: "w", count: 0, device: "nvidia/gpu", gpus: 1})
			clear(f.store.jobs)
			j.Namespace = &tc.namespace
			j.TaskGroups[0].Scaling.Policy = map[string]any{jobspec.Key: []any{tc.asks}}
			f.putJob(newJob(identity.JobKey{Namespace: tc.namespace, ID: "grabber"}, j))
			v := f.view()
			if tc.problem != "" {
				must.SliceEmpty(t, v.Jobs)
				must.StrContains(t, v.Ineligible[0].Problems.Text(), tc.problem)
				return
			}
			must.Len(t, 1, v.Jobs, must.Sprint(v.Ineligible))
			must.Eq(t, tc.priority, v.Jobs[0].Priority)
			must.Eq(t, tc.priority, v.Facts[0].Spec.Priority)
			must.Eq(t, tc.weight, v.Facts[0].Spec.Weight)
			must.Eq(t, tc.notes, v.Facts[0].Notes)

			f.pools["gpu"] = config.Pool{Name: "gpu", Device: "gpu"} // reloaded
			asked, _ := jobspec.Read(&api.Job{ID: j.ID, Namespace: j.Namespace, Type: j.Type, Priority: j.Priority, TaskGroups: j.TaskGroups})
			must.Eq(t, asked.Priority, f.view().Jobs[0].Priority)
		})
	}
}

// TestView_TenantsAreNamespaces has a namespace spread its jobs over queues that it
// invents.
func TestView_TenantsAreNamespaces(t *testing.T) {
	note := `queue "made-up" has no block of its own: the job counts for tenant "team-b"`
	block := func(q config.Queue) map[string]config.Queue { return map[string]config.Queue{q.Name: q} }
	for name, tc := range map[string]struct {
		queue  string
		rules  map[string]config.Queue
		tenant string
		notes  []string
	}{
		"no queue, no rules":     {"", nil, "team-b", nil},
		"no rules":               {"made-up", nil, "team-b", []string{note}},
		"the rule of all others": {"made-up", block(config.Queue{Name: "*"}), "team-b", []string{note}},
		"that rule by its name": {"*", block(config.Queue{Name: "*"}), "team-b",
			[]string{`queue "*" has no block of its own: the job counts for tenant "team-b"`}},
		"another one's rule":        {"made-up", block(config.Queue{Name: "production"}), "team-b", []string{note}},
		"a queue of the operator's": {"production", block(config.Queue{Name: "production"}), "production", nil},
		"a namespace of a queue's name": {"made-up", block(config.Queue{Name: "team-b", Namespaces: []string{"team-a"}}), "namespace team-b",
			[]string{`queue "made-up" has no block of its own: the job counts for tenant "namespace team-b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.pools["gpu"] = config.Pool{Name: "gpu", Device: "gpu", Queues: tc.rules}
			f.node("n1", "gpu", gpus([3]any{"H100", 4, 0}))
			j := f.job("a", "gpu", groupSpec{name: "w", count: 0, device: "nvidia/gpu", gpus: 1})
			clear(f.store.jobs)
			namespace, asks := "team-b", map[string]any{}
			if tc.queue != "" {
				asks["queue"] = tc.queue
			}
			j.Namespace = &namespace
			j.TaskGroups[0].Scaling.Policy = map[string]any{jobspec.Key: []any{asks}}
			f.putJob(newJob(identity.JobKey{Namespace: namespace, ID: "a"}, j))
			v := f.view()
			must.Len(t, 1, v.Facts, must.Sprint(v.Ineligible))
			must.Eq(t, tc.tenant, v.Facts[0].Tenant)
			must.Eq(t, tc.notes, v.Facts[0].Notes)
		})
	}
}
