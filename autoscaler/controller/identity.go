// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"

	"github.com/kolo-nomad/kolo/autoscaler/audit"
	"github.com/kolo-nomad/kolo/autoscaler/leader"
)

// Advertise sets the address of this agent's HTTP API as others reach it. It is
// told to them with the leader's lock, so it must be called before Run.
func (a *Controller) Advertise(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.self.Address = address
}

func (a *Controller) whoami() leader.Holder {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.self
}

// Leads says whether this agent leads and acts on wishes.
func (a *Controller) Leads() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leading()
}

// Leader asks Nomad who leads; no name is nobody. itself says that it is this
// agent.
func (a *Controller) Leader(ctx context.Context) (who leader.Holder, itself bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.Config().Nomad.Timeout)
	defer cancel()
	if who, err = a.lock.Holder(ctx); err != nil {
		return who, false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holder = who
	return who, who.Name == a.self.Name && who.Address == a.self.Address, nil
}

// lookUp finds out who leads, again and again, to be told in the status.
func (a *Controller) lookUp(ctx context.Context) error {
	for {
		if a.Leads() {
			a.mu.Lock()
			a.holder = a.self
			a.mu.Unlock()
		} else if _, _, err := a.Leader(ctx); err != nil && ctx.Err() == nil {
			a.log.Debug("cannot tell who leads", "error", err)
		}
		pause(ctx, a.Config().Leader.TTL/3)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// recordedLock is the leader's lock; taking it and giving it back are recorded.
// Renewing it is not: it changes nothing but how long the lock is held.
type recordedLock struct {
	leader.Lock
	path  string
	audit *audit.Log
}

// Acquire implements leader.Lock.
func (l recordedLock) Acquire(ctx context.Context) error {
	err := l.Lock.Acquire(ctx)
	if err == nil {
		l.audit.Write(audit.Entry{Action: audit.AcquireLock, Variable: l.path})
	}
	return err
}

// Release implements leader.Lock.
func (l recordedLock) Release(ctx context.Context) error {
	err := l.Lock.Release(ctx)
	l.audit.Write(audit.Entry{Action: audit.ReleaseLock, Variable: l.path, Err: err})
	return err
}
