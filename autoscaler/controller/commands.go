// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/leader"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// May returns nil where Nomad lets the token write Kolo's control variable,
// which is what every wish comes down to.
func (a *Controller) May(ctx context.Context, token string) error { return a.vault.may(ctx, token) }

// wish changes the control, saves it, and takes effect at once; where another
// agent leads, as soon as that one has learned of it. Wishes that come together
// are fulfilled one after another, each on top of the last.
func (a *Controller) wish(ctx context.Context, token string, e api.Event, change func(*Control)) error {
	a.wishing.Lock()
	defer a.wishing.Unlock()
	if token != "" && !a.Leads() {
		return leader.ErrNotLeading // the leader is to be asked
	}
	ctx, cancel := context.WithTimeout(ctx, a.Config().Nomad.Timeout) // others wait for it
	defer cancel()
	c, index, err := a.vault.changeControl(ctx, token, change)
	if err != nil {
		return err
	}
	a.takeControl(c, index)
	if e.Type != "" {
		a.event(e)
		a.poke()
	}
	return nil
}

// SetPolicy puts a policy in force for a node pool, on running jobs too. An
// empty line goes back to the configuration. The token is the user's, "" for
// the agent's own.
func (a *Controller) SetPolicy(ctx context.Context, token, pool, line string) error {
	if line != "" {
		if _, err := a.parsePolicy(line); err != nil {
			return err
		}
	}
	return a.wish(ctx, token, api.Event{Type: "policy", Reason: fmt.Sprintf("pool %s: %s", pool, line)}, func(c *Control) {
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
func (a *Controller) Pause(ctx context.Context, token string, key planner.JobKey) error {
	return a.pausing(ctx, token, key, true)
}

// Resume ends what Pause began.
func (a *Controller) Resume(ctx context.Context, token string, key planner.JobKey) error {
	return a.pausing(ctx, token, key, false)
}

func (a *Controller) pausing(ctx context.Context, token string, key planner.JobKey, on bool) error {
	word := map[bool]string{true: "paused", false: "resumed"}[on]
	if key == (planner.JobKey{}) {
		return a.wish(ctx, token, api.Event{Type: "pause", Reason: "all jobs " + word}, func(c *Control) {
			c.All = on
			if !on {
				c.Paused = nil
			}
		})
	}
	name := key.Namespace + "/" + key.ID
	e := jobEvent("pause", key)
	e.Reason = word
	return a.wish(ctx, token, e, func(c *Control) {
		c.Paused = slices.DeleteFunc(c.Paused, func(p string) bool { return p == name })
		if on {
			c.Paused = append(c.Paused, name)
		}
	})
}

// Own are the names of the policies of one's own that there are now.
func (a *Controller) Own() []string {
	dir, ok := a.own.(interface{ Names() ([]string, error) })
	if !ok {
		return nil
	}
	names, err := dir.Names()
	if err != nil {
		a.log.Warn("cannot list the policies of one's own", "error", err)
	}
	return names
}

// Pools are the node pools' policies: as configured, and as set by users.
func (a *Controller) Pools() (configured, set map[string]string) {
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
