// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// alone reports whether a pool is divided only between namespaces, and has jobs of at
// most one namespace. Then there is nothing to divide.
func (p *Policy) alone(s *policy.Snapshot) (namespace string, alone bool) {
	if _, own := p.own[queue.Any]; own || !p.tree.Plain() {
		return "", false
	}
	for i := range s.Jobs {
		if n := s.Jobs[i].Namespace; i > 0 && n != namespace {
			return "", false
		}
		namespace = s.Jobs[i].Namespace
	}
	for _, f := range s.Fixed {
		if len(s.Jobs) > 0 && f.Namespace != namespace {
			return "", false
		}
	}
	return namespace, true
}

// undivided returns the decision of the pool's policy for the whole pool. The policy's
// state is that of the namespace, so that it is still known when jobs of other namespaces
// arrive.
func (p *Policy) undivided(s *policy.Snapshot, namespace string) (d policy.Decision, err error) {
	pot := *s
	before := p.load(s)
	pot.State = before.byName[namespace].State
	if len(before.byName) == 1 {
		for _, only := range before.byName {
			pot.State = only.State // perhaps of another namespace, whose jobs have ended
		}
	}
	if f, ok := p.base.(fallible); ok {
		d, err = f.TryAllocate(&pot)
	} else {
		d = p.base.Allocate(&pot)
	}
	d.State = p.save([]state{{Name: namespace, State: d.State}}, before)
	return d, err
}
