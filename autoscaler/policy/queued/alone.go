// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package queued

import (
	"encoding/json"

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
	before := load(s)
	pot.State = before[namespace].State
	if len(before) == 1 {
		for _, only := range before {
			pot.State = only.State // perhaps of another namespace, whose jobs have ended
		}
	}
	if f, ok := p.base.(fallible); ok {
		d, err = f.TryAllocate(&pot)
	} else {
		d = p.base.Allocate(&pot)
	}
	d.State, _ = json.Marshal([]state{{Name: namespace, State: d.State}}) //nolint:errchkjson // strings, numbers and bytes
	return d, err
}
