// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// standing is what a policy that plans on events remembers of its last plan:
// the counts that were not yet as planned then. Carrying out a plan takes
// time (what grows waits for what shrinks), and until then a decision without
// an event must repeat it rather than settle for what is there.
type standing struct {
	Want map[string]int `json:"want,omitempty"`
	// Why jobs wait, of some of them where it is not for free GPUs.
	Why map[string]string `json:"why,omitempty"`
}

// whysLimit bounds how many reasons are remembered: state is saved in Nomad.
const whysLimit = 100

// remember notes the outstanding changes of a decision.
func (st *standing) remember(s *policy.Snapshot, d *policy.Decision) {
	st.Want, st.Why = nil, nil
	for i := range s.Jobs {
		if a := &d.Allocations[i]; s.Jobs[i].Count == 0 && a.Count == 0 && a.Reason != waits && len(st.Why) < whysLimit {
			if st.Why == nil {
				st.Why = make(map[string]string)
			}
			st.Why[s.Jobs[i].ID] = a.Reason
		}
		if j, n := &s.Jobs[i], d.Allocations[i].Count; n != j.Count {
			if st.Want == nil {
				st.Want = make(map[string]int)
			}
			st.Want[j.ID] = n
		}
	}
}

// keep answers the standing plan: counts as planned, or else as they are. It
// reports false, and changes nothing, where those do not fit bounds or
// capacity; the policy then has to plan again.
func (st *standing) keep(d *policy.Decision, pools []*pool) bool {
	for _, p := range pools {
		free := p.free
		for _, c := range p.jobs {
			n := st.count(c)
			if n != 0 && c.floor(n) != n || n == 0 && c.pinned {
				return false
			}
			free -= c.cost(n)
		}
		if free < 0 {
			return false
		}
	}
	known, why := make(map[string]int, len(st.Want)), make(map[string]string, len(st.Why))
	for _, p := range pools {
		for _, c := range p.jobs {
			switch c.n = st.count(c); {
			case c.n > 0:
				c.why = "nothing changed since the last decision"
			case st.Why[c.ID] != "":
				c.why, why[c.ID] = st.Why[c.ID], st.Why[c.ID]
			}
			if n, ok := st.Want[c.ID]; ok {
				known[c.ID] = n // jobs that are gone are forgotten
			}
			if c.n != c.Count {
				c.why = "as decided before"
			}
		}
	}
	st.Want, st.Why = known, why
	settle(d, pools)
	return true
}

func (st *standing) count(c *candidate) int {
	if n, ok := st.Want[c.ID]; ok && n >= 0 {
		return n
	}
	return c.Count
}
