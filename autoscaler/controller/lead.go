// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
)

// saveEvery bounds what is lost of the history when a leader dies: accounting
// only, for what must not be lost is saved at once.
const saveEvery = time.Minute

// lead is one term of leadership: it loads what the last leader saved, lets
// rounds write, and saves the history now and then and at the end.
func (c *Controller) lead(ctx context.Context) {
	for c.load(ctx) != nil {
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return
		}
	}
	name := c.Config().Name
	c.publish(api.Event{Type: "leader", Reason: name + " leads"})
	c.poke()
	defer func() {
		c.mu.Lock()
		c.loaded = false
		c.mu.Unlock()
		c.publish(api.Event{Type: "leader", Reason: name + " leads no more"})
	}()

	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// The lock is still ours for a moment if the autoscaler is being
			// stopped; Check reports it.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			c.save(last)
			return
		case <-tick.C:
		case <-c.unsaved:
		}
		c.save(ctx)
	}
}

// load takes over what the last leader saved.
func (c *Controller) load(ctx context.Context) error {
	h, lost, err := c.store.LoadHistory(ctx)
	var overrides store.Overrides
	var index uint64
	if err == nil {
		overrides, index, err = c.store.LoadOverrides(ctx)
	}
	if err != nil {
		// Acting without knowing what users paused, or saving over what could
		// not be read, would be worse than not acting.
		c.log.Warn("what the last leader saved cannot be read; not acting", "error", err)
		return err
	}
	if lost != nil {
		c.log.Warn("part of the history is lost and will be estimated", "error", lost)
	}
	c.setOverrides(overrides, index)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history, c.loaded, c.loadedAt = h, true, time.Now()
	for _, p := range c.policies {
		// The states are the last leader's, which may have seen other jobs. What was
		// decided or asked in an earlier term is of older states.
		p.fingerprint, p.asked, p.again, p.wants, p.last, p.ample = 0, nil, false, nil, nil, ampleCounts{}
	}
	return nil
}

// save saves the history as it is now; an older one never replaces it.
func (c *Controller) save(ctx context.Context) {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	snap, err := store.Encode(c.history)
	c.mu.Unlock()
	if snap.Dropped > 0 {
		c.log.Warn("the saved history does not hold all jobs, or not what policies asked for", "dropped", snap.Dropped)
	}
	if err == nil {
		err = c.store.SaveHistory(ctx, snap, c.elector.Check)
	}
	if err != nil && !errors.Is(err, leader.ErrNotLeading) {
		c.log.Warn("saving the history failed", "error", err)
	}
}

// saveSoon has the history saved without waiting for its turn.
func (c *Controller) saveSoon() { notify(c.unsaved) }

// leading reports whether this autoscaler leads and has loaded what it must know.
// The caller holds c.mu.
func (c *Controller) leading() bool { return c.loaded && c.elector.Check() == nil }
