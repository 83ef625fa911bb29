// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/policy/queued"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// queues divides the cluster of a sweep between the queues of -config.
func (a *simulateArgs) queues(s *sim.Sweep) error {
	switch {
	case a.config == "":
		return nil
	case a.tick > 0:
		return badFlag("-config: there are no queues in ticks; leave out -tick")
	}
	c, err := config.Load(a.config)
	if err != nil {
		return err
	}
	pool := c.Pool(a.pool)
	if pool.Tree == nil || len(pool.Queues) == 0 && pool.Share == "" {
		return badFlag("-config %s: pool %q has no queues; name another with -pool, or write share = \"namespaces\"", a.config, a.pool)
	}
	pool.Tree = pool.Tree.WithoutReservations() // the times of traces are no dates
	s.Base.Queues, s.Base.SlotCost = pool.Tree, pool.CostOf
	for i := range s.Contestants {
		base := s.Contestants[i].New
		s.Contestants[i].New = func() (policy.Policy, error) {
			p, err := base()
			if err != nil {
				return nil, err
			}
			own, err := ownPolicies(pool)
			if err != nil {
				return nil, err
			}
			return queued.New(pool.Tree, p, own), nil
		}
	}
	return nil
}

// fix leaves a share of the jobs elastic.
func (a *simulateArgs) fix(s *sim.Sweep) error {
	if !(a.elastic >= 0 && a.elastic <= 1) {
		return badFlag("-elastic %g: want a share from 0 to 1", a.elastic)
	}
	for i, w := range s.Workloads {
		s.Workloads[i] = w.Elastic(a.elastic)
	}
	if vary := s.Variant; vary != nil {
		s.Variant = func(w *trace.Trace, seed uint64) *trace.Trace { return vary(w, seed).Elastic(a.elastic) }
	}
	return nil
}

// ownPolicies returns the policies of queues that have one of their own.
func ownPolicies(pool config.Pool) (map[string]policy.Policy, error) {
	own := map[string]policy.Policy{}
	for name, q := range pool.Queues {
		if q.Policy == "" {
			continue
		}
		p, err := builtin.Policies.New(q.Policy, q.Options)
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", name, err)
		}
		own[name] = p
	}
	return own, nil
}
