// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// ErrConflict is returned by a Lock that another process holds.
var ErrConflict = errors.New("the lock is held by another")

// ErrNotLeading is returned by Check, and by operations reserved for the leader.
var ErrNotLeading = errors.New("this autoscaler does not lead")

// Lock is the lock of a variable.
type Lock interface {
	// Acquire takes the lock, or returns ErrConflict.
	Acquire(ctx context.Context) error
	// Renew prolongs the lock, or returns ErrConflict if it was lost.
	Renew(ctx context.Context) error
	// Release gives the lock back.
	Release(ctx context.Context) error
}

// Elector takes part in elections.
type Elector struct {
	lock Lock
	ttl  time.Duration
	log  hclog.Logger
	now  func() time.Time

	mu       sync.Mutex
	deadline time.Time // leadership is sure before this
}

// New returns an elector for a lock with the given TTL.
func New(lock Lock, ttl time.Duration, log hclog.Logger) *Elector {
	return &Elector{lock: lock, ttl: ttl, log: log, now: time.Now}
}

// Check returns nil if this process is sure to lead, and ErrNotLeading otherwise.
func (e *Elector) Check() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now().Before(e.deadline) {
		return nil
	}
	return ErrNotLeading
}

func (e *Elector) set(deadline time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = deadline
}

// Run takes part in elections until ctx ends. For each term it calls lead with a
// context that ends with the term, and it waits for lead to return.
func (e *Elector) Run(ctx context.Context, lead func(context.Context)) {
	for ctx.Err() == nil {
		asked := e.now()
		err := e.bounded(ctx, e.lock.Acquire)
		if err == nil {
			e.term(ctx, asked, lead)
			continue
		}
		if !errors.Is(err, ErrConflict) && ctx.Err() == nil {
			e.log.Warn("acquiring the leader lock failed", "error", err)
		}
		sleep(ctx, e.ttl/3)
	}
}

// term is one period of leadership, from acquiring the lock to the end of the work.
func (e *Elector) term(ctx context.Context, since time.Time, lead func(context.Context)) {
	// Count the lease from the moment of the request: a slow answer must not
	// prolong it.
	e.set(since.Add(e.ttl))
	e.log.Info("leading")
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { lead(work) })

	err := e.hold(ctx)
	if ctx.Err() == nil || errors.Is(err, ErrConflict) {
		e.set(time.Time{})
	}
	// If the process itself is ending, the lock stays valid for the rest of the
	// TTL, and the work may save its state.
	stop()
	wg.Wait()
	e.set(time.Time{})
	if ctx.Err() != nil {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := e.lock.Release(release); err != nil {
			e.log.Debug("releasing the leader lock failed", "error", err)
		}
		return
	}
	e.log.Warn("leadership lost", "error", err)
}

// hold renews the lock until it is lost, runs out, or the context ends.
func (e *Elector) hold(ctx context.Context) error {
	for {
		sleep(ctx, e.ttl/3)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		asked := e.now()
		err := e.bounded(ctx, e.lock.Renew)
		switch {
		case err == nil:
			e.set(asked.Add(e.ttl))
			continue
		case errors.Is(err, ErrConflict):
			return err
		}
		if e.Check() != nil {
			return fmt.Errorf("no renewal within %s: %w", e.ttl, err)
		}
		e.log.Warn("renewing the leader lock failed", "error", err)
	}
}

// bounded makes one request that may take a third of the TTL, which leaves time for
// another.
func (e *Elector) bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.ttl/3)
	defer cancel()
	return f(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
