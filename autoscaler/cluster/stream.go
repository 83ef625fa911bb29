// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// stream reads events until ctx ends. It reopens the stream after errors.
func (w *Watcher) stream(ctx context.Context) error {
	retries := newRetries(30 * time.Second)
	for ctx.Err() == nil {
		opened, err := w.events(ctx)
		w.streaming.Store(false)
		if ctx.Err() != nil {
			break
		}
		if opened {
			retries.Reset()
		}
		pause := retries.NextBackOff()
		w.log.Debug("event stream ended; reading only lists until it is open again", "error", err, "retry_in", pause)
		sleep(ctx, pause)
	}
	return ctx.Err()
}

// streamSilence is how long a stream may be silent: Nomad sends a heartbeat
// every 10 seconds.
const streamSilence = 35 * time.Second

func (w *Watcher) events(ctx context.Context) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	known, index := w.namespaces(ctx, 0) // before the stream is opened
	params := url.Values{"topic": {"Job", "Allocation", "Node", "Evaluation"}}
	q := (&api.QueryOptions{Namespace: w.client.Namespace}).WithContext(ctx)
	body, err := w.client.Raw().Response("/v1/event/stream?"+params.Encode(), q)
	if err != nil {
		return false, fmt.Errorf("opening the event stream: %w", err)
	}
	defer body.Close()
	w.streaming.Store(true)
	if w.client.Namespace == api.AllNamespacesNamespace {
		watching.Go(func() {
			defer cancel()
			w.untilNamespace(ctx, known, index)
		})
	}
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

// eagerTime is how long lists are read without delay after a job was deregistered, or a
// namespace was created.
const eagerTime = 30 * time.Second

func (w *Watcher) apply(batch *wireEvents) {
	changed := false
	w.store.mu.Lock()
	w.store.last = time.Now()
	for i := range batch.Events {
		e := &batch.Events[i]
		switch p := e.Payload; {
		case p.Allocation != nil && w.store.allocs[p.Allocation.ID] == nil && p.Allocation.ModifyIndex <= w.store.listed["/v1/allocations"],
			p.Node != nil && w.store.nodes[p.Node.ID] == nil && p.Node.ModifyIndex <= w.store.listed["/v1/nodes"],
			p.Evaluation != nil && w.store.evals[p.Evaluation.ID] == nil && p.Evaluation.ModifyIndex <= w.store.listed["/v1/evaluations"]:
			// A new subscription first receives past events, whose objects may no
			// longer exist.
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
				w.eagerUntil.Store(time.Now().Add(eagerTime).UnixNano())
			}
			key := identity.JobKey{Namespace: p.Job.Namespace, ID: p.Job.ID}
			if w.store.jobs[key] != nil || p.Job.asks() {
				w.touch(key)
			}
		case p.Evaluation != nil:
			news := w.store.putEval(p.Evaluation)
			changed = changed || news
			if news && p.Evaluation.Status == api.EvalStatusBlocked || p.Evaluation.BlockedEval != "" {
				w.touch(identity.JobKey{Namespace: p.Evaluation.Namespace, ID: p.Evaluation.JobID})
			}
		}
	}
	w.store.mu.Unlock()
	if changed {
		notify(w.wake)
	}
}
