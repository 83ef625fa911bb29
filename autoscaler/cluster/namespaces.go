// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/nomad/api"
)

// A stream of Nomad has only events of namespaces that existed when it was opened. So the
// stream is opened again when a namespace is created.

// untilNamespace returns when there is an unknown namespace, or when ctx ends. After it has
// found one, lists are read without delay for some time, because the stream has missed the
// namespace's events. If known is nil, because Nomad could not be asked before the stream was
// opened, any namespace is unknown.
func (w *Watcher) untilNamespace(ctx context.Context, known map[string]bool, index uint64) {
	retries := newRetries(time.Minute)
	for ctx.Err() == nil {
		now, next := w.namespaces(ctx, index)
		if now == nil {
			index = 0
			sleep(ctx, retries.NextBackOff())
			continue
		}
		retries.Reset()
		for name := range now {
			if !known[name] {
				w.log.Debug("reopening the event stream for a new namespace", "namespace", name)
				w.eagerUntil.Store(time.Now().Add(eagerTime).UnixNano())
				return
			}
		}
		if next < index {
			next = 0 // Nomad was restored from a snapshot
		}
		index = next
	}
}

// namespaces returns the names of the namespaces that the autoscaler may see. With an index, it
// first waits for a change. It returns nil if only one namespace is configured, or if Nomad
// cannot be asked; the event stream and the lists report the latter.
func (w *Watcher) namespaces(ctx context.Context, index uint64) (names map[string]bool, next uint64) {
	if w.client.Namespace != api.AllNamespacesNamespace {
		return nil, 0
	}
	limit := listWait + listTransfer
	if index == 0 {
		limit = w.client.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, meta, err := w.client.Namespaces().List((&api.QueryOptions{WaitIndex: index, WaitTime: listWait}).WithContext(ctx))
	if err != nil {
		return nil, 0
	}
	names = map[string]bool{}
	for _, ns := range all {
		names[ns.Name] = true
	}
	return names, max(meta.LastIndex, 1)
}
