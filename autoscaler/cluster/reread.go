// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// waits reports whether a job has a blocked evaluation.
func (s *store) waits(key planner.JobKey) bool {
	for _, e := range s.evals {
		if e.job == key && e.queued != nil {
			return true
		}
	}
	return false
}

func (w *Watcher) touch(key planner.JobKey) {
	w.touched.Store(key, struct{}{})
	notify(w.readJobs)
}

// reread reads the jobs that events were about.
func (w *Watcher) reread(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.readJobs:
			if err := errors.Join(w.readTouched(ctx), w.readDetails(ctx)); err != nil && ctx.Err() == nil {
				w.log.Warn("reading jobs or nodes failed", "error", err, "kind", Classify(err))
				sleep(ctx, time.Second)
				notify(w.readJobs)
			}
		}
	}
}

// readers is how many jobs are read at the same time.
const readers = 16

func (w *Watcher) readTouched(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	w.touched.Range(func(k, _ any) bool {
		key := k.(planner.JobKey)
		w.touched.Delete(key)
		g.Go(func() error {
			err := w.ReadJob(ctx, key)
			if err != nil {
				w.touched.Store(key, struct{}{})
			}
			return err
		})
		return ctx.Err() == nil
	})
	return g.Wait()
}

// ReadJob reads one job again.
func (w *Watcher) ReadJob(ctx context.Context, key planner.JobKey) error {
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
	w.putJob(key, info)
	return nil
}
