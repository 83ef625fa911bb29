// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// An agent that does not lead stores what its own user asks for (a caller of its
// Unix socket) with its own token: it passes that on to no one. The leader
// learns of it from Nomad, as all agents do, so that each can say what is paused.

// followControl takes over what other agents stored, until the context ends.
func (a *Controller) followControl(ctx context.Context) error {
	for after := uint64(0); ; {
		c, index, next, err := a.vault.awaitControl(ctx, after)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			a.log.Warn("cannot read what users want; what was read before stays in force", "error", err)
			pause(ctx, a.Config().Leader.TTL/3)
			continue
		case next < after:
			after = 0 // Nomad was restored from a snapshot
			a.forgetControl()
		default:
			after = next
		}
		a.wishing.Lock() // a wish of this agent's reports itself
		what := a.takeControl(c, index)
		a.wishing.Unlock()
		if what != "" {
			a.event(api.Event{Type: what, Reason: "changed through another agent"})
			a.poke()
		}
		pause(ctx, a.batch()) // bounds the requests where Nomad does not wait
	}
}

// forgetControl lets any control be newer than the one in force.
func (a *Controller) forgetControl() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.controlAt = 0
}

// takeControl puts a control in force unless a newer one is, and returns the
// type of event for what changed, "" for nothing.
func (a *Controller) takeControl(c Control, index uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if index <= a.controlAt {
		return ""
	}
	before := a.control
	a.control, a.controlAt = c, index
	switch {
	case before.All != c.All || !slices.Equal(before.Paused, c.Paused):
		return "pause"
	case !maps.Equal(before.Policies, c.Policies):
		return "policy"
	}
	return ""
}
