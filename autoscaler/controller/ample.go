// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// A policy distributes the existing room, so its wants do not show how much more room
// jobs would use. To find that out, the policy is asked a second time, with more room
// than there is.

const (
	// leastAmple is the smallest number of slots that are added. A pool with more
	// slots gets as many again as it has. More would slow down policies that
	// distribute slot by slot.
	leastAmple = 1024
	// ampleEvery is the shortest time between two such questions. The time is also at
	// least ampleShare times as long as the answer took.
	ampleEvery = time.Second
	ampleShare = 20
)

// ampleCounts holds the counts that a policy would want with ample room.
type ampleCounts struct {
	counts      map[identity.JobKey]int
	fingerprint uint64 // of the snapshot behind the counts
	at          time.Time
	took        time.Duration
}

// ample returns the counts that the policies would want with ample room, by index of
// v.Jobs, and when to ask again. An external policy is not asked a second time: each
// of its waiting jobs counts with the smallest size that it may have. The caller holds
// c.mu.
func (c *Controller) ample(v *cluster.View, wants []planner.Want, now time.Time) (counts []int, wake time.Time) {
	counts = make([]int, len(wants))
	for i := range wants {
		counts[i] = wants[i].Count
	}
	for _, name := range v.Pools() {
		p := c.policies[name]
		if p == nil || p.policy == nil || p.problem != "" {
			continue
		}
		_, slow := p.policy.(fallible)
		if !slow {
			if at := c.askAmple(name, p, now); !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
				wake = at
			}
		}
		for i := range v.Jobs {
			j := &v.Jobs[i]
			if j.Pool == name && j.NeverFits != "" {
				counts[i] = j.Sizes.Above(j.Min - 1) // no policy is asked about it
			}
			if j.Pool != name || !movable(j, now) {
				continue
			}
			n, known := p.ample.counts[j.Key]
			switch {
			case known:
				counts[i] = n
			case slow && j.Count() == 0 && wants[i].Count == 0:
				counts[i] = j.Sizes.Above(j.Min - 1)
			}
		}
	}
	return counts, wake
}

// askAmple asks the policy of a pool what it would want with ample room, if the answer
// may have changed. If it is too early to ask, it returns the time to ask, else the zero
// time.
func (c *Controller) askAmple(pool string, p *poolPolicy, now time.Time) time.Time {
	a := &p.ample
	if p.last == nil || a.counts != nil && a.fingerprint == p.fingerprint && now.Sub(a.at) < c.cfg.Planner.Tick {
		return time.Time{}
	}
	if next := a.at.Add(max(ampleEvery, ampleShare*a.took)); a.counts != nil && next.After(now) {
		return next
	}
	q := &request{policy: p.policy, snap: withRoom(p.last.snap), keys: p.last.keys, units: p.last.units}
	q.snap.State, q.snap.Changed = slices.Clone(c.history.States[pool]), true
	q.run()
	*a = ampleCounts{counts: map[identity.JobKey]int{}, fingerprint: p.fingerprint, at: now, took: q.took}
	if q.err != nil {
		c.log.Warn("the policy does not decide for a larger pool; what jobs lack is what it wants now", "pool", pool, "policy", p.line, "error", q.err)
		return time.Time{}
	}
	for key, w := range q.wants() {
		a.counts[key] = w.Count
	}
	return time.Time{}
}

// withRoom returns the snapshot with more free slots of each type.
func withRoom(s *policy.Snapshot) *policy.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	has, most := map[string]int{}, 0
	for i := range s.Nodes {
		has[s.Nodes[i].Type] += max(0, s.Nodes[i].GPUs)
	}
	if len(has) == 0 {
		has[""] = 0
	}
	for i := range s.Jobs {
		most += s.Jobs[i].Max * max(1, s.Jobs[i].PerWorker)
	}
	types := make([]string, 0, len(has))
	for t := range has {
		types = append(types, t)
	}
	slices.Sort(types)
	for _, t := range types {
		n := min(most, max(leastAmple, has[t]))
		out.Nodes = append(out.Nodes, policy.Node{ID: "room " + t, Type: t, GPUs: n, Free: n})
	}
	return &out
}
