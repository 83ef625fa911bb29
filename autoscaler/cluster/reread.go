// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// waits reports whether a job has a blocked evaluation.
func (s *store) waits(key identity.JobKey) bool {
	for _, e := range s.evals {
		if e.job == key && e.waits {
			return true
		}
	}
	return false
}

func (w *Watcher) touch(key identity.JobKey) {
	w.touched.Store(key, struct{}{})
	notify(w.readJobs)
}

// reread reads the jobs that events referred to, and the nodes whose details were
// requested.
func (w *Watcher) reread(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.readJobs:
			if err := errors.Join(readEach(ctx, &w.touched, w.ReadJob), readEach(ctx, &w.details, w.readNode)); err != nil && ctx.Err() == nil {
				w.log.Warn("reading jobs or nodes failed", "error", err, "class", Classify(err))
				sleep(ctx, time.Second)
				notify(w.readJobs)
			}
		}
	}
}

// readers is how many jobs or nodes are read at the same time.
const readers = 16

// readEach reads all pending keys. A key whose read fails stays pending.
func readEach[K any](ctx context.Context, pending *sync.Map, read func(context.Context, K) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	pending.Range(func(k, _ any) bool {
		pending.Delete(k)
		g.Go(func() error {
			err := read(ctx, k.(K))
			if err != nil {
				pending.Store(k, struct{}{})
			}
			return err
		})
		return ctx.Err() == nil
	})
	return g.Wait()
}

// ReadJob reads one job again from Nomad, and updates the store.
func (w *Watcher) ReadJob(ctx context.Context, key identity.JobKey) error {
	ctx, cancel := w.client.bounded(ctx)
	defer cancel()
	info, _, err := w.client.Jobs().Info(key.ID, (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx))
	if Classify(err) == Gone && err != nil {
		w.store.mu.Lock()
		delete(w.store.jobs, key)
		w.store.mu.Unlock()
		notify(w.wake)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading job %s: %w", key, err)
	}
	j := newJob(key, info)
	if w.waits(j) {
		var summary wireSummary
		if _, err := w.client.Raw().Query("/v1/job/"+escape(key.ID)+"/summary", &summary, (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx)); err != nil {
			return fmt.Errorf("reading what job %s waits for: %w", key, err)
		}
		j.queue = newQueue(&summary)
	}
	w.putJob(j)
	return nil
}

// waits reports whether the store keeps a job only because it waits for room.
func (w *Watcher) waits(j *job) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return !j.elastic && w.store.waits(j.key)
}
