// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/queued"
	"github.com/kolo-nomad/kolo/autoscaler/policy/registry"
)

// ExternalPolicies provides policies that are not built in: programs of the operator, which
// package plugin hosts. They may implement fallible.
type ExternalPolicies interface {
	Policy(name string) (policy.Policy, error)
	Names() ([]string, error)
}

// fallible is a policy that may fail, and may be slow.
type fallible interface {
	TryAllocate(*policy.Snapshot) (policy.Decision, error)
}

// poolPolicy is the policy of one node pool, with its state.
type poolPolicy struct {
	line        string // as written
	policy      policy.Policy
	problem     string
	wants       map[identity.JobKey]planner.Want // by the last good decision
	fingerprint uint64                           // of the snapshot with which the policy made its state; 0 if unknown
	last        *request                         // the last one, unless the policy is fallible
	ample       ampleCounts                      // the counts that it would want with more room

	// Of a fallible policy:
	asked *request // pending or answered, or nil
	again bool     // something happened since it was asked
}

// policyOf returns the pool's policy. It makes a new one after a change of overrides or
// configuration. If that fails, the current one stays in force. The caller holds c.mu.
func (c *Controller) policyOf(name string) *poolPolicy {
	set, cfg := c.overrides.Policies[name], c.cfg.Pool(name)
	line := cmp.Or(set, cfg.Policy)
	p := c.policies[name]
	if p != nil && p.line == line && (p.policy != nil || p.problem == "") {
		return p
	}
	_, made, err := c.newPolicy(cfg, set)
	if p == nil {
		p = &poolPolicy{wants: map[identity.JobKey]planner.Want{}}
		c.policies[name] = p
	}
	if err != nil {
		if p.problem != err.Error() {
			c.log.Error("policy cannot be used; the last decision stays in force", "pool", name, "policy", line, "error", err)
		}
		p.problem = err.Error()
		return p
	}
	p.line, p.policy, p.problem, p.fingerprint, p.asked, p.last, p.ample = line, made, "", 0, nil, nil, ampleCounts{}
	return p
}

// newPolicy makes the policy that a user set for a pool or, if set is empty, the
// configured one. It also returns the policy as a line of text.
func (c *Controller) newPolicy(pool config.Pool, set string) (line string, made policy.Policy, err error) {
	if set != "" {
		made, err = c.parsePolicy(set)
	} else {
		made, err = c.makePolicy(pool.Policy, func() (policy.Policy, error) { return builtin.Policies.New(pool.Policy, pool.Options) })
	}
	if err == nil && pool.Tree != nil {
		made, err = c.perQueue(pool, made)
	}
	return cmp.Or(set, pool.Policy), made, err
}

// perQueue returns the policy that divides a pool between its queues, and runs base in
// those that have no policy of their own.
func (c *Controller) perQueue(pool config.Pool, base policy.Policy) (policy.Policy, error) {
	own := map[string]policy.Policy{}
	for name, q := range pool.Queues {
		if q.Policy == "" {
			continue
		}
		p, err := c.makePolicy(q.Policy, func() (policy.Policy, error) { return builtin.Policies.New(q.Policy, q.Options) })
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", name, err)
		}
		own[name] = p
	}
	return queued.New(pool.Tree, base, own), nil
}

func (c *Controller) parsePolicy(line string) (policy.Policy, error) {
	if err := registry.CheckLine(line); err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(strings.TrimSpace(line), "(")
	return c.makePolicy(strings.TrimSpace(name), func() (policy.Policy, error) { return builtin.Policies.Parse(line) })
}

// makePolicy returns the built-in policy of that name or, if there is none, the external
// one.
func (c *Controller) makePolicy(name string, builtIn func() (policy.Policy, error)) (policy.Policy, error) {
	if _, ok := builtin.Policies.Describe(name); ok || c.external == nil {
		return builtIn()
	}
	return c.external.Policy(name)
}

// ExternalPolicies returns the names of the external policies that exist now.
func (c *Controller) ExternalPolicies() []string {
	if c.external == nil {
		return nil
	}
	names, err := c.external.Names()
	if err != nil {
		c.log.Warn("cannot list the external policies", "error", err)
	}
	return names
}

// Pools returns the node pools' policies: as configured, and as set by users.
func (c *Controller) Pools() (configured, set map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	configured, set = map[string]string{}, map[string]string{}
	for name, p := range c.cfg.Pools {
		configured[name] = p.Policy
	}
	for _, p := range c.status.Pools {
		configured[p.Name] = c.cfg.Pool(p.Name).Policy
	}
	maps.Copy(set, c.overrides.Policies)
	return configured, set
}
