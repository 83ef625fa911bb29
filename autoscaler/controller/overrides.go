// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
)

// An autoscaler that does not lead stores the commands of its own user (on its Unix
// socket) with its own token, which it never sends to another autoscaler. All autoscalers
// read the commands from Nomad: the leader obeys them, and all report which jobs are
// paused.

// followOverrides applies the overrides that other autoscalers store, until the context
// ends.
func (c *Controller) followOverrides(ctx context.Context) error {
	for after := uint64(0); ; {
		o, index, next, err := c.store.PollOverrides(ctx, after)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.log.Warn("cannot read the overrides; those read before stay in force", "error", err)
			pause(ctx, c.Config().Leader.TTL/3)
			continue
		case next < after:
			after = 0 // Nomad was restored from a snapshot
			c.forgetOverrides()
		default:
			after = next
		}
		c.commanding.Lock() // a command of this autoscaler reports itself
		changed := c.setOverrides(o, index)
		c.commanding.Unlock()
		if changed != "" {
			c.publish(api.Event{Type: changed, Reason: "changed through another autoscaler"})
			c.poke()
		}
		pause(ctx, c.Config().Planner.Debounce) // bounds the requests where Nomad does not wait
	}
}

// forgetOverrides makes any overrides count as newer than those in force.
func (c *Controller) forgetOverrides() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.overridesIndex = 0
}

// setOverrides puts overrides in force unless newer ones are. It returns the type of event
// for the change, or "" if nothing changed.
func (c *Controller) setOverrides(o store.Overrides, index uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if index <= c.overridesIndex {
		return ""
	}
	before := c.overrides
	c.overrides, c.overridesIndex = o, index
	switch {
	case before.All != o.All || !slices.Equal(before.Paused, o.Paused):
		return "pause"
	case !maps.Equal(before.Policies, o.Policies):
		return "policy"
	}
	return ""
}
