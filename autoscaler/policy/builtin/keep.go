// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// standing is the part of its last plan that a policy remembers if it plans on
// events only: the counts that the cluster had not reached yet. Carrying out a plan
// takes time, because growing jobs wait for shrinking ones. Until then a decision
// without an event must repeat the plan and not settle for the current counts.
type standing struct {
	Want map[string]int `json:"want,omitempty"`
	// Why holds the reasons of some waiting jobs, if they wait for something other
	// than free GPUs.
	Why map[string]string `json:"why,omitempty"`
}

// whysLimit bounds how many reasons are remembered, because the state is stored in
// Nomad.
const whysLimit = 100

// remember records the changes of a decision that are outstanding.
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

// keep repeats the standing plan: planned counts, and present counts for all other
// jobs. It returns false and changes nothing if these do not fit the bounds or the
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
				known[c.ID] = n // which forgets jobs that are gone
			}
			if c.n != c.Count {
				c.why = "as decided before"
			}
			c.repeats = c.n > 0 || c.n != c.Count || st.Why[c.ID] == "" && len(st.Why) == whysLimit
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
