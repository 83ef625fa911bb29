// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// ErrFollower is returned for wishes to an agent that does not lead.
var ErrFollower = errors.New("this agent does not lead")

// May returns nil where Nomad lets the token write Kolo's control variable,
// which is what every wish comes down to.
func (a *Agent) May(ctx context.Context, token string) error {
	return a.wish(ctx, token, Event{}, func(*Control) {})
}

// wish changes the control, saves it, and takes effect at once.
func (a *Agent) wish(ctx context.Context, token string, e Event, change func(*Control)) error {
	a.mu.Lock()
	if !a.leading() {
		a.mu.Unlock()
		return ErrFollower
	}
	c := a.control.clone()
	a.mu.Unlock()
	change(&c)
	if err := a.vault.saveControl(ctx, c, token); err != nil {
		return err
	}
	a.mu.Lock()
	a.control = c
	a.mu.Unlock()
	if e.Type != "" {
		a.event(e)
		a.poke()
	}
	return nil
}

// SetPolicy puts a policy in force for a node pool, on running jobs too. An
// empty line goes back to the configuration. The token is the user's, "" for
// the agent's own.
func (a *Agent) SetPolicy(ctx context.Context, token, pool, line string) error {
	if line != "" {
		if _, err := a.parsePolicy(line); err != nil {
			return err
		}
	}
	return a.wish(ctx, token, Event{Type: "policy", Reason: fmt.Sprintf("pool %s: %s", pool, line)}, func(c *Control) {
		if c.Policies == nil {
			c.Policies = map[string]string{}
		}
		if line == "" {
			delete(c.Policies, pool)
		} else {
			c.Policies[pool] = line
		}
	})
}

// Pause leaves a job alone, or all jobs where the key is zero; Resume ends it.
func (a *Agent) Pause(ctx context.Context, token string, key planner.JobKey) error {
	return a.pausing(ctx, token, key, true)
}

// Resume ends what Pause began.
func (a *Agent) Resume(ctx context.Context, token string, key planner.JobKey) error {
	return a.pausing(ctx, token, key, false)
}

func (a *Agent) pausing(ctx context.Context, token string, key planner.JobKey, on bool) error {
	word := map[bool]string{true: "paused", false: "resumed"}[on]
	if key == (planner.JobKey{}) {
		return a.wish(ctx, token, Event{Type: "pause", Reason: "all jobs " + word}, func(c *Control) {
			c.All = on
			if !on {
				c.Paused = nil
			}
		})
	}
	name := key.Namespace + "/" + key.ID
	return a.wish(ctx, token, Event{Type: "pause", Job: key.String(), Reason: word}, func(c *Control) {
		c.Paused = slices.DeleteFunc(c.Paused, func(p string) bool { return p == name })
		if on {
			c.Paused = append(c.Paused, name)
		}
	})
}

// Pools are the node pools' policies: as configured, and as set by users.
func (a *Agent) Pools() (configured, set map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	configured, set = map[string]string{}, map[string]string{}
	for name, p := range a.cfg.Pools {
		configured[name] = p.Policy
	}
	for _, p := range a.status.Pools {
		configured[p.Name] = a.cfg.Pool(p.Name).Policy
	}
	for name, line := range a.control.Policies {
		set[name] = line
	}
	return configured, set
}

// Proposal is what a policy would do now.
type Proposal struct {
	Pool    string        `json:"pool"`
	Policy  string        `json:"policy"`
	Actions []ProposedJob `json:"jobs"`
}

// ProposedJob is one job in a proposal.
type ProposedJob struct {
	Job    string `json:"job"`
	Count  int    `json:"count"` // now
	Want   int    `json:"want"`
	Write  int    `json:"write"` // what could be written at once
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
	Wait   string `json:"wait,omitempty"`
}

// Propose says what the policy of each pool would do now, or another policy
// where line is not empty. Nothing is written.
func (a *Agent) Propose(line string) ([]Proposal, error) {
	view, err := a.watcher.View(a.Config().Pool)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
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
	wants := make([]planner.Want, len(view.Jobs))
	var out []Proposal
	for _, name := range poolNames(view) {
		p := a.policyOf(name)
		try := &pool{spec: p.spec, policy: p.policy}
		if line != "" {
			if try.policy, err = a.parsePolicy(line); err != nil {
				return nil, err
			}
			try.spec = line
		}
		if try.policy == nil {
			return nil, fmt.Errorf("pool %s: %s", name, p.problem)
		}
		snap, index := a.snapshot(view, name, try, now)
		snap.Changed = true
		if line != "" {
			snap.State = nil
		}
		var d policy.Decision
		if d, err = a.allocate(try.policy, snap); err != nil {
			return nil, err
		}
		for i := range view.Jobs {
			if view.Jobs[i].Pool == name {
				wants[i] = planner.Want{Count: view.Jobs[i].Count()}
			}
		}
		for k, i := range index {
			wants[i] = planner.Want{Count: d.Allocations[k].Count, Reason: d.Allocations[k].Reason}
		}
		out = append(out, Proposal{Pool: name, Policy: try.spec})
	}
	plan := planner.Make(&view.Cluster, wants, now, a.cfg.Planner.Options)
	for k := range out {
		out[k].Actions = proposed(view.Jobs, wants, plan, out[k].Pool)
	}
	return out, nil
}

func proposed(jobs []planner.Job, wants []planner.Want, plan planner.Plan, pool string) []ProposedJob {
	out := []ProposedJob{}
	for i := range jobs {
		j := &jobs[i]
		if j.Pool != pool {
			continue
		}
		p := ProposedJob{Job: j.Key.String(), Count: j.Count(), Want: wants[i].Count, Write: j.Count(), Reason: wants[i].Reason}
		for _, act := range plan.Actions {
			if act.Job == j.Key {
				p.Write, p.Cause = act.To, string(act.Cause)
			}
		}
		for _, w := range plan.Waits {
			if w.Job == j.Key {
				p.Wait = w.Why
			}
		}
		out = append(out, p)
	}
	return out
}
