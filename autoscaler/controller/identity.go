// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
)

// Advertise sets the address at which others reach this autoscaler's HTTP API. It must be
// called before Run, because the leader's lock holds the address.
func (c *Controller) Advertise(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.self.Address = address
}

// identity returns the content of the leader's lock while this autoscaler leads.
func (c *Controller) identity() leader.Holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self
}

// Leads reports whether this autoscaler leads and acts on commands.
func (c *Controller) Leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leading()
}

// Leader asks Nomad which autoscaler leads. who has no name if no autoscaler leads. itself
// reports whether this autoscaler leads.
func (c *Controller) Leader(ctx context.Context) (who leader.Holder, itself bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Config().Nomad.Timeout)
	defer cancel()
	if who, err = c.lock.Holder(ctx); err != nil {
		return who, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holder = who
	return who, who.Name == c.self.Name && who.Address == c.self.Address, nil
}

// followLeader updates the name of the leader in the status until the context ends.
func (c *Controller) followLeader(ctx context.Context) error {
	for {
		if c.Leads() {
			c.mu.Lock()
			c.holder = c.self
			c.mu.Unlock()
		} else if _, _, err := c.Leader(ctx); err != nil && ctx.Err() == nil {
			c.log.Debug("the leader is unknown", "error", err)
		}
		pause(ctx, c.Config().Leader.TTL/3)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// auditedLock is the leader's lock. The audit log records when it is acquired and released.
// It does not record renewals, which only extend the time that the lock is held.
type auditedLock struct {
	leader.Lock
	path  string
	audit *audit.Log
}

// Acquire implements leader.Lock.
func (l auditedLock) Acquire(ctx context.Context) error {
	err := l.Lock.Acquire(ctx)
	if err == nil {
		l.audit.Write(audit.Entry{Action: audit.AcquireLock, Variable: l.path})
	}
	return err
}

// Release implements leader.Lock.
func (l auditedLock) Release(ctx context.Context) error {
	err := l.Lock.Release(ctx)
	l.audit.Write(audit.Entry{Action: audit.ReleaseLock, Variable: l.path, Err: err})
	return err
}
