// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Propose says what the policy of each pool would do now, or another policy
// where line is not empty. Nothing is written. It waits for policies of one's
// own, while the context lasts, and holds no one else up.
func (a *Controller) Propose(ctx context.Context, line string) ([]api.Proposal, error) {
	view, err := a.watcher.View(a.Config().Pool)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	questions, out, options, err := a.proposals(view, line, now)
	if err != nil {
		return nil, err
	}
	wants := make([]planner.Want, len(view.Jobs))
	index := make(map[planner.JobKey]int, len(view.Jobs))
	for i := range view.Jobs {
		wants[i].Count = view.Jobs[i].Count()
		index[view.Jobs[i].Key] = i
	}
	for _, q := range questions {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q.answer(); q.err != nil {
			return nil, q.err
		}
		for k, key := range q.keys {
			wants[index[key]] = planner.Want{Count: q.decision.Allocations[k].Count, Reason: q.decision.Allocations[k].Reason}
		}
	}
	plan := planner.Make(&view.Cluster, wants, now, options)
	byPool := proposed(view.Jobs, wants, plan)
	for k := range out {
		out[k].Jobs = append([]api.ProposedJob{}, byPool[out[k].Pool]...)
	}
	return out, nil
}

// proposals are the questions to ask for a proposal, one per pool.
func (a *Controller) proposals(view *cluster.View, line string, now time.Time) ([]*question, []api.Proposal, planner.Options, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	options := a.cfg.Planner.Options
	for i := range view.Jobs {
		j, f := &view.Jobs[i], &view.Facts[i]
		r := a.ledger.Jobs[j.Key]
		if r == nil || r.Created != f.Created {
			r = &Record{Created: f.Created, FirstSeen: now}
			a.ledger.Jobs[j.Key] = r
		}
		a.recall(j, f, r, now)
	}
	a.makeRoom(view)
	var questions []*question
	var out []api.Proposal
	for _, name := range poolNames(view) {
		p := a.policyOf(name)
		try := &pool{spec: p.spec, policy: p.policy}
		if line != "" {
			var err error
			if try.policy, err = a.parsePolicy(line); err != nil {
				return nil, nil, options, err
			}
			try.spec = line
		}
		if try.policy == nil {
			return nil, nil, options, fmt.Errorf("pool %s: %s", name, p.problem)
		}
		q := a.question(view, name, try, now)
		q.snap.Changed = true
		if line != "" {
			q.snap.State = nil
		}
		questions = append(questions, q)
		out = append(out, api.Proposal{Pool: name, Policy: try.spec})
	}
	return questions, out, options, nil
}

// proposed are the jobs of a proposal by pool.
func proposed(jobs []planner.Job, wants []planner.Want, plan planner.Plan) map[string][]api.ProposedJob {
	actions := make(map[planner.JobKey]*planner.Action, len(plan.Actions))
	for i := range plan.Actions {
		actions[plan.Actions[i].Job] = &plan.Actions[i]
	}
	waits := make(map[planner.JobKey]string, len(plan.Waits))
	for _, w := range plan.Waits {
		waits[w.Job] = w.Why
	}
	out := map[string][]api.ProposedJob{}
	for i := range jobs {
		j := &jobs[i]
		p := api.ProposedJob{Job: j.Key.String(), Namespace: j.Key.Namespace, ID: j.Key.ID, Count: j.Count(), Want: wants[i].Count, Write: j.Count(), Reason: wants[i].Reason, HoldReason: waits[j.Key]}
		if act := actions[j.Key]; act != nil {
			p.Write, p.Cause = act.To, string(act.Cause)
		}
		out[j.Pool] = append(out[j.Pool], p)
	}
	return out
}
