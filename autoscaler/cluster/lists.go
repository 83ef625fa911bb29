// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// pageSize is how many objects one page of a list holds.
const pageSize = 5000

// A blocking query waits for listWait at most, and its answer may take
// listTransfer to arrive. (Nomad adds up to a sixteenth to the wait.)
const (
	listWait     = 5 * time.Minute
	listTransfer = 2 * time.Minute
)

// pages reads all pages of a list; each page goes to one call of take. The
// index is that of the first page, so that a change between two pages is seen
// by the next blocking query.
func pages[T any](ctx context.Context, w *Watcher, path string, index uint64, params map[string]string, filter string, take func([]T)) (uint64, error) {
	var first uint64
	token := ""
	for {
		q := w.client.list(ctx, 0, 0, params)
		if token == "" {
			q.WaitIndex, q.WaitTime = index, listWait
		}
		q.PerPage, q.NextToken, q.Filter = pageSize, token, filter
		var page []T
		// A connection that died silently must not block for ever.
		bounded, cancel := context.WithTimeout(ctx, listWait+listTransfer)
		meta, err := w.client.Raw().Query(path, &page, q.WithContext(bounded))
		cancel()
		if err != nil {
			return 0, fmt.Errorf("listing %s: %w", path, err)
		}
		if token == "" {
			first = meta.LastIndex
			if first == index && index != 0 {
				return index, nil // the wait ran out, nothing changed
			}
		}
		take(page)
		if token = meta.NextToken; token == "" {
			return max(first, 1), nil
		}
	}
}

func (w *Watcher) listNodes(ctx context.Context, index uint64) (uint64, error) {
	listed := map[string]bool{}
	changed := false
	next, err := pages(ctx, w, "/v1/nodes", index, map[string]string{"resources": "true"}, "", func(page []wireNode) {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		for i := range page {
			listed[page[i].ID] = true
			changed = w.store.putNode(&page[i], false) || changed
		}
	})
	if err != nil || next == index {
		return next, err
	}
	w.store.mu.Lock()
	w.store.listed["nodes"] = next
	if prune(w.store.nodes, listed, next, func(n *node) uint64 { return n.ModifyIndex }) {
		w.store.nodesGen++
		changed = true
	}
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
	return next, nil
}

func (w *Watcher) listAllocs(ctx context.Context, index uint64) (uint64, error) {
	listed := map[string]bool{}
	changed := false
	next, err := pages(ctx, w, "/v1/allocations", index, map[string]string{"resources": "true", "task_states": "false"}, "", func(page []wireAlloc) {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		for i := range page {
			listed[page[i].ID] = true
			changed = w.store.putAlloc(&page[i]) || changed
		}
	})
	if err != nil || next == index {
		return next, err
	}
	w.store.mu.Lock()
	w.store.listed["allocations"] = next
	changed = prune(w.store.allocs, listed, next, func(a *alloc) uint64 { return a.index }) || changed
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
	return next, nil
}

func (w *Watcher) listEvals(ctx context.Context, index uint64) (uint64, error) {
	listed := map[string]bool{}
	changed := false
	next, err := pages(ctx, w, "/v1/evaluations", index, nil, `Status == "blocked"`, func(page []wireEval) {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		for i := range page {
			listed[page[i].ID] = true
			if w.store.putEval(&page[i]) {
				changed = true
				w.touch(planner.JobKey{Namespace: page[i].Namespace, ID: page[i].JobID})
			}
		}
	})
	if err != nil || next == index {
		return next, err
	}
	w.store.mu.Lock()
	w.store.listed["evaluations"] = next
	changed = prune(w.store.evals, listed, next, func(e *blocked) uint64 { return e.index }) || changed
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
	return next, nil
}

// listJobs reads the stubs of all jobs, and of those that have a scaling
// policy the job itself where it has changed.
func (w *Watcher) listJobs(ctx context.Context, index uint64) (uint64, error) {
	stubs := map[planner.JobKey]wireJob{}
	next, err := pages(ctx, w, "/v1/jobs", index, nil, "", func(page []wireJob) {
		for _, j := range page {
			stubs[planner.JobKey{Namespace: j.Namespace, ID: j.ID}] = j
		}
	})
	if err != nil || next == index {
		return next, err
	}
	var policies []*api.ScalingPolicyListStub
	if _, err = w.client.Raw().Query("/v1/scaling/policies", &policies, w.client.list(ctx, 0, 0, map[string]string{"type": "horizontal"})); err != nil {
		return 0, fmt.Errorf("listing scaling policies: %w", err)
	}
	candidates := map[planner.JobKey]bool{}
	for _, p := range policies {
		candidates[planner.JobKey{Namespace: p.Target["Namespace"], ID: p.Target["Job"]}] = true
	}
	changed := false
	w.store.mu.Lock()
	for key, j := range w.store.jobs {
		stub, there := stubs[key]
		switch {
		case !there && j.modify <= next, !j.elastic && !w.store.waits(key):
			delete(w.store.jobs, key)
			changed = true
		case there && j.status != stub.Status && stub.ModifyIndex >= j.modify:
			j.status = stub.Status
			changed = true
		}
	}
	for key := range candidates {
		stub, there := stubs[key]
		if have := w.store.jobs[key]; there && (have == nil || have.change < stub.JobModifyIndex) {
			w.touch(key)
		}
	}
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
	return next, w.readTouched(ctx)
}
