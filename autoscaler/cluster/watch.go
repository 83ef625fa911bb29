// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
)

// Watcher keeps a store up to date with Nomad.
type Watcher struct {
	client *Client
	log    hclog.Logger
	resync time.Duration
	store  *store
	wake   chan struct{}

	streaming  atomic.Bool  // the event stream is open
	eagerUntil atomic.Int64 // Unix nanoseconds; until then, lists are read without a pause
	touched    sync.Map     // jobs to read again after an event
	details    sync.Map     // nodes to read with all details
	troubles   sync.Map     // errors of lists whose last read failed
	readJobs   chan struct{}
	classes    classCache
	trees      treeCache
}

// NewWatcher returns a watcher; Run starts it.
func NewWatcher(c *Client, resync time.Duration, log hclog.Logger) *Watcher {
	return &Watcher{
		client: c, log: log, resync: resync, store: newStore(),
		wake: make(chan struct{}, 1), readJobs: make(chan struct{}, 1),
	}
}

// Changed returns a channel that receives a value after changes. Several changes may
// share one value.
func (w *Watcher) Changed() <-chan struct{} { return w.wake }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready reports whether every list has been read once, so that a View is complete.
func (w *Watcher) Ready() bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return len(w.store.parts) == 4
}

// Trouble returns the error of the last attempt to read Nomad's state, or nil if the
// attempt succeeded.
func (w *Watcher) Trouble() error {
	var out error
	w.troubles.Range(func(_, err any) bool {
		out, _ = err.(error)
		return false // any of them will do: they concern the same Nomad
	})
	return out
}

func (w *Watcher) trouble(list string, err error) {
	if err == nil {
		w.troubles.Delete(list)
	} else {
		w.troubles.Store(list, err)
	}
}

// LastAnswer returns the time of Nomad's last answer.
func (w *Watcher) LastAnswer() time.Time {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return w.store.last
}

// Run watches Nomad until ctx ends. It returns after all its goroutines have ended.
func (w *Watcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.stream(ctx) })
	g.Go(func() error { return w.follow(ctx, "nodes", w.listNodes) })
	g.Go(func() error { return w.follow(ctx, "allocations", w.listAllocs) })
	g.Go(func() error { return w.follow(ctx, "jobs", w.listJobs) })
	g.Go(func() error { return w.follow(ctx, "evaluations", w.listEvals) })
	g.Go(func() error { return w.reread(ctx) })
	return g.Wait()
}

const (
	costAge    = time.Hour       // age at which the cost of a read is measured again
	eagerPause = 3 * time.Second // pause between reads that cost little
)

// follow reads one list again and again, with a query that blocks in Nomad until
// the index moves. While events arrive, the list only verifies them and is not read
// more often than resync. Without events it is read without delay, but reading
// takes at most half of the time.
func (w *Watcher) follow(ctx context.Context, name string, list func(context.Context, uint64) (uint64, error)) error {
	var index uint64
	var cost time.Duration // of a read that does not wait
	var costed time.Time
	failed := false
	retries := newRetries(15 * time.Second)
	for ctx.Err() == nil {
		start := time.Now()
		if start.Sub(costed) > costAge {
			index = 0
		}
		next, err := list(ctx, index)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.trouble(name, err)
			pause := retries.NextBackOff()
			w.log.Warn("reading from Nomad failed", "list", name, "error", err, "class", Classify(err), "retry_in", pause)
			sleep(ctx, pause)
			index, failed = 0, true // read without blocking, whatever has changed in the meantime
			continue
		}
		retries.Reset()
		w.trouble(name, nil)
		w.store.mu.Lock()
		w.store.last = time.Now()
		_, known := w.store.parts[name]
		w.store.parts[name] = struct{}{}
		w.store.mu.Unlock()
		if !known {
			notify(w.wake)
		}
		if next < index {
			next = 0 // Nomad was restored from a snapshot
		}
		took := time.Since(start)
		pause := took
		if index == 0 {
			cost, costed = took, start
			if !failed {
				pause *= 20
			}
		}
		index, failed = next, false
		pause = min(pause, 20*cost, time.Minute)
		if w.streaming.Load() {
			w.pause(ctx, min(pause, max(cost, eagerPause)), max(pause, w.resync))
		} else {
			w.pause(ctx, pause, pause)
		}
	}
	return ctx.Err()
}

// pause waits for most. It returns earlier, but not before least, if the stream
// breaks or lists are to be read eagerly.
func (w *Watcher) pause(ctx context.Context, least, most time.Duration) {
	streaming, start := w.streaming.Load(), time.Now()
	for ctx.Err() == nil {
		past := time.Since(start)
		if past >= most || past >= least && (streaming && !w.streaming.Load() || time.Now().UnixNano() < w.eagerUntil.Load()) {
			return
		}
		sleep(ctx, min(most-past, 250*time.Millisecond))
	}
}

// newRetries returns the pauses between consecutive failures: about a second at
// first, doubling up to longest.
func newRetries(longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(longest*2/3), backoff.WithRandomizationFactor(0.5), // up to one and a half of it
		backoff.WithMaxElapsedTime(0))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ErrNotReady is returned by View until every list has been read once.
var ErrNotReady = errors.New("the cluster's state is still being read")

// ForgetClasses drops the cached places of all jobs and the cached topologies of all
// pools. Call it when the levels of a pool have changed, or the way its slots are
// counted.
func (w *Watcher) ForgetClasses() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.classes, w.trees = classCache{}, treeCache{}
}
