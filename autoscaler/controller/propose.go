// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// Propose returns what the policy of each pool would do now or, if line is not empty, what
// the policy in line would do. If pools is not nil, it takes policies, queues and
// spares from pools; how a pool counts slots and where workers go stays as it is. Propose writes nothing and
// delays no round. It returns when the context ends, but does not interrupt an external policy.
func (c *Controller) Propose(ctx context.Context, line string, pools map[string]config.Pool) ([]api.Proposal, error) {
	poolOf := c.Config().Pool
	if pools != nil {
		poolOf = requeued(poolOf, pools)
	}
	view, err := c.watcher.View(poolOf)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	requests, out, options, err := c.proposals(view, line, poolOf, pools != nil, now)
	if err != nil {
		return nil, err
	}
	wanted := map[identity.JobKey]planner.Want{}
	for _, q := range requests {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		q.snap.Context = ctx //nolint:fatcontext // the same one for each pool's snapshot
		if q.run(); q.err != nil {
			return nil, q.err
		}
		maps.Copy(wanted, q.wants())
	}
	wants := c.proposedWants(view, wanted, poolOf)
	plan := planner.Make(&view.Cluster, wants, now, options)
	byPool := proposedJobs(view.Jobs, wants, plan)
	for k := range out {
		out[k].Jobs = append([]api.ProposedJob{}, byPool[out[k].Pool]...)
		out[k].Ineligible = report.Ineligible(view, out[k].Pool)
	}
	return out, nil
}

// proposedWants returns the wanted count of each job, given the counts that policies want. It
// also sets how many spares the jobs are to have.
func (c *Controller) proposedWants(v *cluster.View, wanted map[identity.JobKey]planner.Want, poolOf func(string) config.Pool) []planner.Want {
	c.mu.Lock()
	defer c.mu.Unlock()
	jobs := v.Jobs
	wants := make([]planner.Want, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		w, decided := wanted[j.Key]
		switch h := c.job(j.Key); {
		case !decided:
			w = undecided(j)
		case h != nil:
			w = h.restrain(j, w)
		}
		wants[i] = w
	}
	c.lendSpares(v, wants, poolOf)
	return wants
}

// requeued returns the pools in force with the policies, queues and spares of others.
func requeued(inForce func(string) config.Pool, others map[string]config.Pool) func(string) config.Pool {
	changed := &config.Config{Pools: others}
	return func(name string) config.Pool {
		p, q := inForce(name), changed.Pool(name)
		p.Policy, p.Options, p.Queues, p.Share, p.Tree, p.SpareSlots = q.Policy, q.Options, q.Queues, q.Share, q.Tree, q.SpareSlots
		return p
	}
}

// proposals returns the requests for a proposal, one per pool. With changed, the policies
// are not those in force.
func (c *Controller) proposals(view *cluster.View, line string, poolOf func(string) config.Pool, changed bool, now time.Time) ([]*request, []api.Proposal, planner.Options, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	options := c.cfg.Planner.Options
	c.separateSpares(view, nil)
	for i := range view.Jobs {
		j, f := &view.Jobs[i], &view.Facts[i]
		c.history.Job(j.Key, &f.Observation, now)
		c.fill(j, f, now)
	}
	c.addMobility(view, now)
	c.loans.divided = divide(view, poolOf, c.history, now)
	c.loans.reserve(view, now)
	var requests []*request
	var out []api.Proposal
	for _, name := range view.Pools() {
		p := c.policyOf(name)
		try := &poolPolicy{line: p.line, policy: p.policy}
		if line != "" || changed {
			var err error
			set := cmp.Or(line, c.overrides.Policies[name])
			if try.line, try.policy, err = c.newPolicy(poolOf(name), set); err != nil {
				return nil, nil, options, fmt.Errorf("pool %s: %w", name, err)
			}
		}
		if try.policy == nil {
			return nil, nil, options, fmt.Errorf("pool %s: %s", name, p.problem)
		}
		q := c.request(view, name, try, now)
		q.snap.Changed = true
		if line != "" || changed {
			q.snap.State = nil
		}
		requests = append(requests, q)
		out = append(out, api.Proposal{Pool: name, Policy: try.line})
	}
	return requests, out, options, nil
}

// proposedJobs returns the jobs of a proposal by pool.
func proposedJobs(jobs []planner.Job, wants []planner.Want, plan planner.Plan) map[string][]api.ProposedJob {
	actions := make(map[identity.JobKey]*planner.Action, len(plan.Actions))
	for i := range plan.Actions {
		actions[plan.Actions[i].Job] = &plan.Actions[i]
	}
	waits := report.WaitsByJob(plan.Waits)
	out := map[string][]api.ProposedJob{}
	for i := range jobs {
		j := &jobs[i]
		p := api.ProposedJob{
			Job: j.Key.String(), JobKey: j.Key, Count: j.Count(), Want: wants[i].Count, Write: j.Count(), Spares: j.HeldSpares(), WriteSpare: j.HeldSpares(),
			Reason: wants[i].Reason, HoldReason: waits[j.Key].Why,
		}
		if act := actions[j.Key]; act != nil {
			p.Write, p.Cause = act.To, string(act.Cause)
			for g := range j.Groups {
				if n, written := act.Spares[j.Groups[g].Name]; written {
					p.WriteSpare += n - j.Groups[g].Spare
				}
			}
			if act.Cause == planner.Migrate {
				p.Move = act.Reason
			}
			if act.Cause == planner.Spare {
				p.Reason = act.Reason
			}
		}
		out[j.Pool] = append(out[j.Pool], p)
	}
	return out
}
