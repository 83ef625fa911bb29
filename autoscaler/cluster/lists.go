// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// pageSize is how many objects one page of a list holds.
const pageSize = 5000

// A blocking query waits for listWait at most, and its answer may take
// listTransfer to arrive. (Nomad adds up to a sixteenth to the wait.)
const (
	listWait     = 5 * time.Minute
	listTransfer = 2 * time.Minute
)

// pages reads all pages of a list and passes each to take. It returns the index of
// the first page, so that the next blocking query sees a change between two pages.
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
		// A connection that died silently must not block forever.
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

// refresh reads a whole list once its index has moved. put stores one object and
// returns its ID; prune drops objects that are neither listed nor newer than the
// list. Both report whether anything changed, and are called with the store locked.
func refresh[T any](ctx context.Context, w *Watcher, path string, index uint64, params map[string]string, filter string,
	put func(*T) (id string, changed bool), prune func(listed map[string]bool, index uint64) bool) (uint64, error) {
	listed := map[string]bool{}
	changed := false
	next, err := pages(ctx, w, path, index, params, filter, func(page []T) {
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		for i := range page {
			id, news := put(&page[i])
			listed[id], changed = true, changed || news
		}
	})
	if err != nil || next == index {
		return next, err
	}
	w.store.mu.Lock()
	w.store.listed[path] = next
	changed = prune(listed, next) || changed
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
	return next, nil
}

func (w *Watcher) listNodes(ctx context.Context, index uint64) (uint64, error) {
	return refresh(ctx, w, "/v1/nodes", index, map[string]string{"resources": "true"}, "", func(n *wireNode) (string, bool) {
		return n.ID, w.store.putNode(n, false)
	}, func(listed map[string]bool, at uint64) bool {
		dropped := prune(w.store.nodes, listed, at, func(n *node) uint64 { return n.ModifyIndex })
		if dropped {
			w.store.nodesGen++
		}
		return dropped
	})
}

func (w *Watcher) listAllocs(ctx context.Context, index uint64) (uint64, error) {
	return refresh(ctx, w, "/v1/allocations", index, map[string]string{"resources": "true", "task_states": "false"}, "", func(a *wireAlloc) (string, bool) {
		return a.ID, w.store.putAlloc(a)
	}, func(listed map[string]bool, at uint64) bool {
		return prune(w.store.allocs, listed, at, func(a *alloc) uint64 { return a.index })
	})
}

func (w *Watcher) listEvals(ctx context.Context, index uint64) (uint64, error) {
	return refresh(ctx, w, "/v1/evaluations", index, nil, `Status == "blocked"`, func(e *wireEval) (string, bool) {
		changed := w.store.putEval(e)
		if changed {
			w.touch(identity.JobKey{Namespace: e.Namespace, ID: e.JobID})
		}
		return e.ID, changed
	}, func(listed map[string]bool, at uint64) bool {
		return prune(w.store.evals, listed, at, func(e *blocked) uint64 { return e.index })
	})
}

// listJobs reads the stubs of all jobs. It then reads each changed job that has a
// scaling policy.
func (w *Watcher) listJobs(ctx context.Context, index uint64) (uint64, error) {
	stubs := map[identity.JobKey]wireJob{}
	next, err := pages(ctx, w, "/v1/jobs", index, nil, "", func(page []wireJob) {
		for _, j := range page {
			stubs[identity.JobKey{Namespace: j.Namespace, ID: j.ID}] = j
		}
	})
	if err != nil || next == index {
		return next, err
	}
	var policies []*api.ScalingPolicyListStub
	if _, err = w.client.Raw().Query("/v1/scaling/policies", &policies, w.client.list(ctx, 0, 0, map[string]string{"type": "horizontal"})); err != nil {
		return 0, fmt.Errorf("listing scaling policies: %w", err)
	}
	candidates := map[identity.JobKey]bool{}
	for _, p := range policies {
		candidates[identity.JobKey{Namespace: p.Target["Namespace"], ID: p.Target["Job"]}] = true
	}
	changed := false
	w.store.mu.Lock()
	waiting := w.store.waiting()
	for key, j := range w.store.jobs {
		stub, there := stubs[key]
		if q := newQueue(stub.JobSummary); q.index > j.queue.index && !j.elastic {
			j.queue, changed = q, true
		}
		switch {
		case !there && j.modify <= next, !j.elastic && !waiting[key]:
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
	return next, readEach(ctx, &w.touched, w.ReadJob)
}
