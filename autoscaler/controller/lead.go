// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/memory/store"
)

// saveEvery bounds how much of the history is lost when a leader dies. Only accounting
// can be lost: other facts are saved immediately.
const saveEvery = time.Minute

// lead runs one term of leadership: it loads the state that the last leader saved, lets
// rounds write, and saves the history every saveEvery and at the end.
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
		c.publish(api.Event{Type: "leader", Reason: name + " no longer leads"})
	}()

	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { c.keepUsage(ctx) })
	keeping.Go(func() { c.watchGPUs(ctx) })

	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// If the autoscaler is being stopped, it still has the lock for a moment;
			// Check reports whether it has.
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

// load loads the state that the last leader saved.
func (c *Controller) load(ctx context.Context) error {
	h, lost, err := c.store.LoadHistory(ctx)
	var overrides store.Overrides
	var index uint64
	if err == nil {
		overrides, index, err = c.store.LoadOverrides(ctx)
	}
	if err != nil {
		// Not acting is better than acting on jobs that users may have paused, or
		// overwriting a history that could not be read.
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
		// The policies' states were saved by the last leader, which may have seen other
		// jobs. Decisions and requests of an earlier term have older states.
		p.fingerprint, p.asked, p.again, p.wants, p.last, p.ample = 0, nil, false, nil, nil, ampleCounts{}
	}
	return nil
}

// save saves the present history; an older one never replaces it.
func (c *Controller) save(ctx context.Context) {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	snap, err := store.Encode(c.history)
	c.mu.Unlock()
	if snap.Dropped > 0 {
		c.log.Warn("the saved history omits jobs, kinds or policy states that do not fit", "dropped", snap.Dropped)
	}
	if err == nil {
		err = c.store.SaveHistory(ctx, snap, c.elector.Check)
	}
	if err != nil && !errors.Is(err, leader.ErrNotLeading) {
		c.log.Warn("saving the history failed", "error", err)
	}
}

// saveSoon makes lead save the history now.
func (c *Controller) saveSoon() { notify(c.unsaved) }

// leading reports whether this autoscaler leads and has loaded the last leader's state. The
// caller holds c.mu.
func (c *Controller) leading() bool { return c.loaded && c.elector.Check() == nil }
