// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"fmt"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
)

// MayCommand returns nil if Nomad lets the token write the overrides, which every command
// requires.
func (c *Controller) MayCommand(ctx context.Context, token string) error {
	return c.store.MayChangeOverrides(ctx, token)
}

// SetPolicy sets the policy of a node pool, which then applies to running jobs, too. An
// empty line restores the configured policy. token is the user's token; "" stands for the
// autoscaler's own token.
func (c *Controller) SetPolicy(ctx context.Context, token, pool, line string) error {
	if line != "" {
		if _, err := c.parsePolicy(line); err != nil {
			return err
		}
	}
	e := api.Event{Type: "policy", Reason: fmt.Sprintf("pool %s: %s", pool, line)}
	return c.command(ctx, token, e, func(o *store.Overrides) { o.SetPolicy(pool, line) })
}

// Paused reports whether a job is paused, by itself or with all others.
func (c *Controller) Paused(key identity.JobKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overrides.IsPaused(key)
}

// SetPaused pauses a job, or resumes it. A zero key means all jobs.
func (c *Controller) SetPaused(ctx context.Context, token string, key identity.JobKey, paused bool) error {
	word := map[bool]string{true: "paused", false: "resumed"}[paused]
	e := api.Event{Type: "pause", Reason: "all jobs " + word}
	if key != (identity.JobKey{}) {
		e = jobEvent("pause", key)
		e.Reason = word
	}
	return c.command(ctx, token, e, func(o *store.Overrides) { o.Pause(key, paused) })
}

// command changes the overrides and saves them. The change takes effect immediately or,
// if another autoscaler leads, once that one has read it. Concurrent commands take effect
// one after another, each on top of the last. A command with a token is accepted only by
// the leader: others return leader.ErrNotLeading.
func (c *Controller) command(ctx context.Context, token string, e api.Event, change func(*store.Overrides)) error {
	c.commanding.Lock()
	defer c.commanding.Unlock()
	if token != "" && !c.Leads() {
		return leader.ErrNotLeading
	}
	ctx, cancel := context.WithTimeout(ctx, c.Config().Nomad.Timeout) // others wait for it
	defer cancel()
	o, index, err := c.store.ChangeOverrides(ctx, token, change)
	if err != nil {
		return err
	}
	c.setOverrides(o, index)
	c.publish(e)
	c.poke()
	return nil
}
