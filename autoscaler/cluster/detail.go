// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"

	"github.com/hashicorp/nomad/api"
)

// askDetails requests single reads of nodes whose attributes or metadata the
// constraints of some job need, because lists do not contain them.
func (w *Watcher) askDetails(ids []string) {
	for _, id := range ids {
		w.details.Store(id, struct{}{})
	}
	notify(w.readJobs)
}

// readNode reads one node with all its data.
func (w *Watcher) readNode(ctx context.Context, id string) error {
	ctx, cancel := w.client.bounded(ctx)
	defer cancel()
	var n wireNode
	if _, err := w.client.Raw().Query("/v1/node/"+id, &n, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		if Classify(err) == Gone {
			return nil
		}
		return fmt.Errorf("reading node %s: %w", id, err)
	}
	w.store.mu.Lock()
	changed := w.store.putNode(&n, true)
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
	return nil
}
