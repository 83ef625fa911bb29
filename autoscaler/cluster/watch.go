// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Watcher keeps a store up to date with Nomad.
type Watcher struct {
	client *Client
	log    hclog.Logger
	resync time.Duration
	store  *store
	wake   chan struct{}

	streaming atomic.Bool  // the event stream is open
	hurry     atomic.Int64 // until this Unix nanosecond lists are not left alone
	touched   sync.Map     // jobs that an event was about, to be read again
	details   sync.Map     // nodes to be read whole
	readJobs  chan struct{}
	classes   classCache
}

// pageSize is how many objects one page of a list holds.
const pageSize = 5000

// NewWatcher makes a watcher; Run starts it.
func NewWatcher(c *Client, resync time.Duration, log hclog.Logger) *Watcher {
	return &Watcher{
		client: c, log: log, resync: resync, store: newStore(),
		wake: make(chan struct{}, 1), readJobs: make(chan struct{}, 1),
	}
}

// Changed receives a value after something changed; several changes may
// share one.
func (w *Watcher) Changed() <-chan struct{} { return w.wake }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready says whether all lists were read once, so that a View is complete.
func (w *Watcher) Ready() bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return len(w.store.parts) == 4
}

// LastAnswer is when Nomad last answered anything.
func (w *Watcher) LastAnswer() time.Time {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return w.store.last
}

// Run watches until the context ends; it returns when all its goroutines have.
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

// follow reads one list again and again: it blocks in Nomad until the index
// moves. While events arrive the list is only a check on them, and is left
// alone for the resync time; without them it is read at once, but never more
// than a twentieth of the time.
func (w *Watcher) follow(ctx context.Context, name string, list func(context.Context, uint64) (uint64, error)) error {
	var index uint64
	backoff := time.Second
	for ctx.Err() == nil {
		start := time.Now()
		next, err := list(ctx, index)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.log.Warn("reading from Nomad failed", "list", name, "error", err, "kind", Classify(err), "retry_in", backoff)
			sleep(ctx, backoff)
			backoff = min(2*backoff, 15*time.Second)
			continue
		}
		backoff = time.Second
		w.store.mu.Lock()
		w.store.last = time.Now()
		_, known := w.store.parts[name]
		w.store.parts[name] = struct{}{}
		w.store.mu.Unlock()
		if !known {
			poke(w.wake)
		}
		if next < index {
			next = 0 // Nomad was restored from a snapshot
		}
		took := time.Since(start)
		if index == 0 {
			took *= 20 // a read that did not wait
		}
		index = next
		pause := min(took, time.Minute)
		if w.streaming.Load() {
			w.pause(ctx, pause, max(pause, w.resync))
		} else {
			w.pause(ctx, pause, pause)
		}
	}
	return ctx.Err()
}

// pause waits: for least where the stream is lost meanwhile, or lists are
// wanted in a hurry, and for most otherwise.
func (w *Watcher) pause(ctx context.Context, least, most time.Duration) {
	streaming, start := w.streaming.Load(), time.Now()
	for ctx.Err() == nil {
		past := time.Since(start)
		if past >= most || past >= least && (streaming && !w.streaming.Load() || time.Now().UnixNano() < w.hurry.Load()) {
			return
		}
		sleep(ctx, min(most-past, 250*time.Millisecond))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

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
		// A connection that died without a word must not block for ever.
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
	if prune(w.store.nodes, listed, next, func(n *node) uint64 { return n.ModifyIndex }) {
		w.store.nodesGen++
		changed = true
	}
	w.store.mu.Unlock()
	if changed {
		poke(w.wake)
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
	changed = prune(w.store.allocs, listed, next, func(a *alloc) uint64 { return a.index }) || changed
	w.store.mu.Unlock()
	if changed {
		poke(w.wake)
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
	changed = prune(w.store.evals, listed, next, func(e *blocked) uint64 { return e.index }) || changed
	w.store.mu.Unlock()
	if changed {
		poke(w.wake)
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
		poke(w.wake)
	}
	return next, w.readTouched(ctx)
}

// waits says whether a job has a blocked evaluation.
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
	poke(w.readJobs)
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
				poke(w.readJobs)
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
		poke(w.wake)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading job %s: %w", key, err)
	}
	w.putJob(key, info)
	return nil
}

// stream reads events until the context ends, opening it again after errors.
func (w *Watcher) stream(ctx context.Context) error {
	backoff := time.Second
	for ctx.Err() == nil {
		opened, err := w.events(ctx)
		w.streaming.Store(false)
		if ctx.Err() != nil {
			break
		}
		if opened {
			backoff = time.Second
		}
		w.log.Debug("event stream ended; lists go on without it", "error", err, "retry_in", backoff)
		sleep(ctx, backoff)
		backoff = min(2*backoff, 30*time.Second)
	}
	return ctx.Err()
}

// streamSilence is how long a stream may be silent: Nomad sends a heartbeat
// every 10 seconds.
const streamSilence = 35 * time.Second

func (w *Watcher) events(ctx context.Context) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	params := url.Values{"topic": {"Job", "Allocation", "Node", "Evaluation"}}
	q := (&api.QueryOptions{Namespace: w.client.Namespace}).WithContext(ctx)
	body, err := w.client.Raw().Response("/v1/event/stream?"+params.Encode(), q)
	if err != nil {
		return false, fmt.Errorf("opening the event stream: %w", err)
	}
	defer body.Close()
	w.streaming.Store(true)
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	dec := json.NewDecoder(body)
	for ctx.Err() == nil {
		silence.Reset(streamSilence)
		var batch wireEvents
		if err := dec.Decode(&batch); err != nil {
			return true, fmt.Errorf("reading the event stream: %w", err)
		}
		if len(batch.Events) > 0 {
			w.apply(&batch)
		}
	}
	return true, ctx.Err()
}

// purgeTime is how long after a job's end lists are read without delay.
const purgeTime = 30 * time.Second

func (w *Watcher) apply(batch *wireEvents) {
	changed := false
	w.store.mu.Lock()
	w.store.last = time.Now()
	for i := range batch.Events {
		e := &batch.Events[i]
		switch p := e.Payload; {
		case p.Allocation != nil:
			changed = w.store.putAlloc(p.Allocation) || changed
		case p.Node != nil:
			if e.Type == "NodeDeregistration" {
				delete(w.store.nodes, p.Node.ID)
				w.store.nodesGen++
				changed = true
			} else {
				changed = w.store.putNode(p.Node, true) || changed
			}
		case p.Job != nil:
			if e.Type == "JobDeregistered" {
				// Allocations of a purged job may vanish without an event.
				w.hurry.Store(time.Now().Add(purgeTime).UnixNano())
			}
			key := planner.JobKey{Namespace: p.Job.Namespace, ID: p.Job.ID}
			if w.store.jobs[key] != nil || p.Job.asks() {
				w.touch(key)
			}
		case p.Evaluation != nil:
			if w.store.putEval(p.Evaluation) {
				changed = true
				if p.Evaluation.Status == api.EvalStatusBlocked {
					w.touch(planner.JobKey{Namespace: p.Evaluation.Namespace, ID: p.Evaluation.JobID})
				}
			}
		}
	}
	w.store.mu.Unlock()
	if changed {
		poke(w.wake)
	}
}

// ErrNotReady is returned for a View before all lists were read.
var ErrNotReady = errors.New("the cluster's state is still being read")

// ForgetClasses has the places of all jobs found anew, after a change of how
// a pool's slots are counted.
func (w *Watcher) ForgetClasses() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.classes = classCache{}
}
