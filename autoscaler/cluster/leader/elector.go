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

// ErrConflict is returned by a Lock that someone else holds.
var ErrConflict = errors.New("the lock is held by another")

// ErrNotLeading is returned by Check, and for what the leader alone may do.
var ErrNotLeading = errors.New("this autoscaler does not lead")

// Lock is the lock of a variable.
type Lock interface {
	// Acquire takes the lock, or returns ErrConflict.
	Acquire(ctx context.Context) error
	// Renew prolongs it, or returns ErrConflict when it was lost.
	Renew(ctx context.Context) error
	// Release gives it back.
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

// New makes an elector for a lock of the given TTL.
func New(lock Lock, ttl time.Duration, log hclog.Logger) *Elector {
	return &Elector{lock: lock, ttl: ttl, log: log, now: time.Now}
}

// Check returns nil while this process is sure to lead.
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

// Run takes part until the context ends, and calls lead for each term with a
// context that ends with it. It returns after lead has.
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

// term is one leadership: from an acquired lock to the end of the work.
func (e *Elector) term(ctx context.Context, since time.Time, lead func(context.Context)) {
	// The lock is ours from the moment we asked, at the earliest: a slow
	// answer must not prolong it.
	e.set(since.Add(e.ttl))
	e.log.Info("leading")
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { lead(work) })

	err := e.hold(ctx)
	if ctx.Err() == nil || errors.Is(err, ErrConflict) {
		e.set(time.Time{})
	}
	// Where it is the process that ends, the lock is ours for what is left of
	// the TTL, and the work may save what it has.
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

// bounded makes one request, for a third of the TTL at most, so that there is
// time for another.
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
