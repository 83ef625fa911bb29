// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"
)

// askDetails has nodes read one by one whose attributes or metadata some
// job's constraints need; lists do not hold them.
func (w *Watcher) askDetails(ids []string) {
	for _, id := range ids {
		w.details.Store(id, struct{}{})
	}
	notify(w.readJobs)
}

func (w *Watcher) readDetails(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	w.details.Range(func(k, _ any) bool {
		id := k.(string)
		w.details.Delete(id)
		g.Go(func() error {
			bctx, cancel := w.client.bounded(ctx)
			defer cancel()
			var n wireNode
			if _, err := w.client.Raw().Query("/v1/node/"+id, &n, (&api.QueryOptions{}).WithContext(bctx)); err != nil {
				if Classify(err) == Gone {
					return nil
				}
				w.details.Store(id, struct{}{})
				return fmt.Errorf("reading node %s: %w", id, err)
			}
			w.store.mu.Lock()
			changed := w.store.putNode(&n, true)
			w.store.mu.Unlock()
			if changed {
				notify(w.wake)
			}
			return nil
		})
		return ctx.Err() == nil
	})
	return g.Wait()
}
