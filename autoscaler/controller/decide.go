// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// request is a question to a policy, and its answer.
type request struct {
	policy      policy.Policy
	snap        *policy.Snapshot
	fingerprint uint64            // of snap
	keys        []identity.JobKey // of the snapshot's jobs
	units       []int             // workers that each of them starts and stops together

	done     bool // the rest is set; guarded by the controller's lock
	decision policy.Decision
	err      error
	took     time.Duration
}

// decide updates a pool's decision and sets its wants, by index of v.Jobs. Until an
// external policy answers, its last decision stays in force; the answer causes a round.
// decide returns the time at which the policy wants to be asked again. The caller holds
// c.mu.
func (c *Controller) decide(v *cluster.View, pool string, wants []planner.Want, now time.Time) time.Time {
	p := c.policyOf(pool)
	var wake time.Time
	if p.policy != nil {
		if _, slow := p.policy.(fallible); slow {
			wake = c.decideAsync(v, pool, p, now)
		} else {
			q := c.request(v, pool, p, now)
			q.run()
			p.last = q
			wake = c.accept(pool, p, q)
		}
	}
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if j.Pool != pool || !movable(j, now) {
			continue
		}
		w, ok := p.wants[j.Key]
		if !ok {
			w = planner.Want{Count: j.Settled(), Reason: "no decision yet"}
		}
		if p.problem != "" && w.Reason != "" {
			w.Reason += " (decided before the policy failed)"
		}
		h := c.job(j.Key)
		w = h.restrain(j, w)
		h.noteSuspension(j, v.Facts[i].Version, w)
		wants[i] = w
		if w.Stops && j.Count() == 0 && j.Alive() == 0 {
			c.job(j.Key).Stop(v.Facts[i].Version)
		}
	}
	return wake
}

// decideAsync accepts the answer of an external policy, if there is one, and asks again if
// something happened since the request. Each pool has at most one pending request, and no
// round waits for it.
func (c *Controller) decideAsync(v *cluster.View, pool string, p *poolPolicy, now time.Time) time.Time {
	var wake time.Time
	q := p.asked
	switch {
	case q != nil && !q.done:
		p.again = true
		return wake
	case q != nil:
		p.asked = nil
		wake = c.accept(pool, p, q)
		if !p.again {
			return wake
		}
	}
	p.again = false
	q = c.request(v, pool, p, now)
	p.asked = q
	c.deciding.Go(func() {
		answered := *q // a copy, which no one else reads
		answered.run()
		c.mu.Lock()
		answered.done = true
		*q = answered
		c.mu.Unlock()
		c.poke()
	})
	return wake
}

func (c *Controller) request(v *cluster.View, pool string, p *poolPolicy, now time.Time) *request {
	snap, index := c.snapshot(v, pool, now)
	q := &request{policy: p.policy, snap: snap, fingerprint: snap.Fingerprint()}
	snap.Changed, snap.First = q.fingerprint != p.fingerprint, p.fingerprint == 0
	for _, i := range index {
		q.keys, q.units = append(q.keys, v.Jobs[i].Key), append(q.units, max(1, v.Facts[i].Unit))
	}
	return q
}

// run asks the policy.
func (q *request) run() {
	start := time.Now()
	q.decision, q.err = allocate(q.policy, q.snap)
	q.took = time.Since(start)
}

// wants returns the counts that the policy decided.
func (q *request) wants() map[identity.JobKey]planner.Want {
	out := make(map[identity.JobKey]planner.Want, len(q.keys))
	for k, key := range q.keys {
		a, unit := &q.decision.Allocations[k], q.units[k]
		w := planner.Want{Count: a.Count * unit, Reason: a.Reason, Wait: a.Wait, Reclaimed: a.Reclaimed, Stops: a.Stops}
		if unit > 1 && w.Reason != "" {
			w.Reason += fmt.Sprintf(" (in units of %d workers)", unit)
		}
		out[key] = w
	}
	return out
}

// keepReasons restores the earlier reason of each count that is the same as in the earlier
// decision, as far as that reason is known.
func (q *request) keepReasons(wants, before map[identity.JobKey]planner.Want) {
	for k, key := range q.keys {
		w, old := wants[key], before[key]
		if q.decision.Allocations[k].Repeats && old.Reason != "" && old.Count == w.Count {
			w.Reason, w.Wait = old.Reason, old.Wait
			wants[key] = w
		}
	}
}

// accept puts an answer in force, or records why it cannot. It returns the time at
// which the policy wants to be asked again.
func (c *Controller) accept(pool string, p *poolPolicy, q *request) time.Time {
	c.metrics.decision(pool, q.took, q.err)
	if q.err != nil {
		if p.problem != q.err.Error() {
			c.log.Error("policy refused; the last decision stays in force", "pool", pool, "policy", q.policy.Name(), "error", q.err)
		}
		p.problem = q.err.Error()
		var later interface{ RetryAt() time.Time }
		if errors.As(q.err, &later) {
			return time.Now().Add(max(time.Millisecond, time.Until(later.RetryAt())))
		}
		return time.Time{}
	}
	if p.problem != "" {
		c.log.Info("the policy decides again", "pool", pool, "policy", q.policy.Name())
	}
	p.problem = ""
	c.history.States[pool], p.fingerprint = q.decision.State, q.fingerprint
	wants := q.wants()
	q.keepReasons(wants, p.wants)
	p.wants = wants
	if w := q.decision.RequeueAt; w > 0 && w < q.snap.Now+farAhead {
		return time.UnixMilli(int64(w * 1000))
	}
	return time.Time{}
}

// farAhead is the number of seconds from now after which the RequeueAt of a policy is
// ignored, because the policy is asked every tick anyway.
const farAhead = 24 * 3600

// allocate asks a policy and recovers from its panics. It returns only valid decisions.
func allocate(p policy.Policy, s *policy.Snapshot) (d policy.Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("policy %s panicked: %v", p.Name(), r)
		}
	}()
	if f, ok := p.(fallible); ok {
		if d, err = f.TryAllocate(s); err != nil {
			return d, err
		}
	} else {
		d = p.Allocate(s)
	}
	if s.Context != nil && s.Context.Err() != nil {
		return d, fmt.Errorf("policy %s: %w", p.Name(), context.Cause(s.Context))
	}
	if err := policy.Validate(s, &d); err != nil {
		return d, fmt.Errorf("policy %s: %w", p.Name(), err)
	}
	return d, nil
}
