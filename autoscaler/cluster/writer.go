// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/time/rate"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// metaKey marks Kolo's scaling events in Nomad.
const metaKey = "kolo"

// ErrStale is returned if a job has changed since the plan was made. Nothing was
// written; a new plan will take the change into account.
var ErrStale = errors.New("the job has changed since it was looked at")

// Writer sends actions to Nomad.
type Writer struct {
	watcher *Watcher
	// may is called immediately before every write. It returns an error unless this
	// autoscaler is sure to lead.
	may   func() error
	audit *audit.Log
	rate  *rate.Limiter
}

// NewWriter returns a writer that makes at most perSecond writes per second. It
// calls may before each write, and writes nothing if may returns an error. It
// records each write in the audit log.
func NewWriter(w *Watcher, perSecond int, may func() error, record *audit.Log) *Writer {
	return &Writer{watcher: w, may: may, audit: record, rate: rate.NewLimiter(rate.Limit(perSecond), 1)}
}

// turn waits for the rate limiter, then checks that the write is allowed.
func (w *Writer) turn(ctx context.Context) error {
	if err := w.rate.Wait(ctx); err != nil {
		return err
	}
	if err := w.may(); err != nil {
		return fmt.Errorf("%w: %w", errNotLeading, err)
	}
	return nil
}

// Written is the result of an action.
type Written struct {
	Index  uint64 // JobModifyIndex after the last step that was written
	Steps  int    // number of steps written
	Tagged bool   // a version of the job is tagged, which keeps it
}

// Apply writes an action step by step. Each step takes effect only if the job has
// not changed since the previous step. f must hold the facts that the plan was made
// from: if the job's workers have changed since then, Apply writes nothing and
// returns ErrStale.
func (w *Writer) Apply(ctx context.Context, a planner.Action, f Facts, meta map[string]any) (Written, error) {
	out := Written{Index: a.Index}
	if f.Batch && f.Running > 0 {
		if err := w.verify(ctx, a.Job, f); err != nil {
			return out, err
		}
	}
	if a.Cause == planner.Keep {
		var err error
		if out.Tagged, err = w.tag(ctx, a, f); out.Tagged || err != nil {
			return out, err
		}
		if time.Since(f.Submitted) < scaleAfter {
			return out, nil // too early for a scale to the same count
		}
	}
	for _, s := range a.Steps {
		data := maps.Clone(meta)
		if n, ok := a.Spares[s.Group]; ok {
			data[spareKey] = n // together with the count, so that the driver never sees only one of them
		}
		index, err := w.scale(ctx, a, s, out.Index, data)
		if err != nil {
			if out.Steps > 0 || Classify(err) == Conflict || Classify(err) == Gone {
				w.watcher.touch(a.Job)
			}
			return out, err
		}
		out.Index = index
		out.Steps++
		w.watcher.scaled(a.Job, s.Group, s.To, index)
	}
	return out, nil
}

// verify reads the job's allocations again. A completed worker, unlike a change of
// the job, moves no index on which a write could be conditional.
func (w *Writer) verify(ctx context.Context, key identity.JobKey, f Facts) error {
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	var allocs []wireAlloc
	q := (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx)
	if _, err := w.watcher.client.Raw().Query("/v1/job/"+escape(key.ID)+"/allocations", &allocs, q); err != nil {
		return fmt.Errorf("verifying the workers of %s: %w", key, err)
	}
	s := w.watcher.store
	s.mu.Lock()
	defer s.mu.Unlock()
	running, completed := 0, uint64(0)
	elastic := map[string]bool{}
	for _, g := range f.Spec.Groups {
		elastic[g.Name] = true
	}
	for i := range allocs {
		s.putAlloc(&allocs[i])
		a := s.allocs[allocs[i].ID]
		if !elastic[a.group] {
			continue
		}
		if a.complete {
			completed = max(completed, a.index)
		}
		if !a.over && !a.ending {
			running++
		}
	}
	if completed > f.Completed || running != f.Running {
		notify(w.watcher.wake)
		return ErrStale
	}
	return nil
}

func (w *Writer) scale(ctx context.Context, a planner.Action, s planner.Step, index uint64, meta map[string]any) (uint64, error) {
	if err := w.turn(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	n := int64(s.To)
	resp, _, err := w.watcher.client.Jobs().ScaleWithRequest(a.Job.ID, &api.ScalingRequest{
		Count:          &n,
		Target:         groupTarget(s.Group),
		Message:        "kolo: " + a.Reason,
		Meta:           map[string]any{metaKey: meta},
		JobModifyIndex: index,
	}, (&api.WriteOptions{Namespace: a.Job.Namespace}).WithContext(ctx))
	w.record(audit.Entry{Action: audit.Scale, Group: s.Group, Change: fmt.Sprintf("%d→%d", s.From, s.To), Reason: a.Reason}, a.Job, err)
	if err != nil {
		return 0, fmt.Errorf("scaling %s/%s %d→%d: %w", a.Job, s.Group, s.From, s.To, err)
	}
	return resp.JobModifyIndex, nil
}

func groupTarget(group string) map[string]string { return map[string]string{"Group": group} }

// tag keeps Nomad from garbage-collecting a parked job by tagging its present
// version. It returns false if the token may scale jobs but not tag them. The
// caller then scales to the same count, which also moves the job's submit time.
func (w *Writer) tag(ctx context.Context, a planner.Action, f Facts) (bool, error) {
	if err := w.turn(ctx); err != nil {
		return false, err
	}
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	_, err := w.watcher.client.Jobs().TagVersion(a.Job.ID, f.Version, metaKey, "kept by kolo while the job waits with no workers",
		(&api.WriteOptions{Namespace: a.Job.Namespace}).WithContext(ctx))
	w.record(audit.Entry{Action: audit.Tag, Reason: "the job waits with no workers"}, a.Job, err)
	switch class := Classify(err); {
	case err == nil:
		return true, nil
	case class == Conflict:
		return true, nil // any tagged version keeps the job, even an older one
	case class == Away || class == Stopped:
		return false, fmt.Errorf("protecting %s: %w", a.Job, err)
	}
	return false, nil // also if the job's name contains a slash, which Nomad answers with 404
}

// scaleAfter is the age at which a parked job that may not be tagged is protected
// by a scale to the same count.
const scaleAfter = 2 * time.Hour

// untagLooks bounds how often Untag checks for remaining tags.
const untagLooks = 3

// Untag lets Nomad garbage-collect the job after its end. Nomad keeps a job if any
// of its versions is tagged. A scale copies the tag to the new version, but a
// request removes the tag from only one version. Therefore Untag counts the tagged
// versions, and counts again afterwards in case the job was scaled in the meantime.
func (w *Writer) Untag(ctx context.Context, key identity.JobKey) error {
	for range untagLooks {
		n, err := w.tagged(ctx, key)
		if n == 0 || err != nil {
			return err
		}
		for range n {
			if err := w.untagOne(ctx, key); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("removing the tag of %s: versions are tagged again and again", key)
}

// tagged returns how many versions of a job have Kolo's tag.
func (w *Writer) tagged(ctx context.Context, key identity.JobKey) (int, error) {
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	versions, _, _, err := w.watcher.client.Jobs().Versions(key.ID, false, (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx))
	if err != nil && Classify(err) != Gone {
		return 0, fmt.Errorf("reading the versions of %s: %w", key, err)
	}
	n := 0
	for _, v := range versions {
		if v.VersionTag != nil && v.VersionTag.Name == metaKey {
			n++
		}
	}
	return n, nil
}

func (w *Writer) untagOne(ctx context.Context, key identity.JobKey) error {
	if err := w.turn(ctx); err != nil {
		return err
	}
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	_, err := w.watcher.client.Jobs().UntagVersion(key.ID, metaKey, (&api.WriteOptions{Namespace: key.Namespace}).WithContext(ctx))
	w.record(audit.Entry{Action: audit.Untag, Reason: "the job waits no longer"}, key, err)
	if err != nil && Classify(err) != Gone {
		return fmt.Errorf("removing the tag of %s: %w", key, err)
	}
	return nil
}

// Report records a problem where the job's user looks for it, as a scaling event of
// the job. It does not scale anything.
func (w *Writer) Report(ctx context.Context, a IneligibleJob) error {
	if err := w.turn(ctx); err != nil {
		return err
	}
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	_, _, err := w.watcher.client.Jobs().ScaleWithRequest(a.Key.ID, &api.ScalingRequest{
		Target: groupTarget(a.Group), Error: true, Message: "kolo does not scale this job: " + a.Problems.Text(),
		Meta: map[string]any{metaKey: map[string]any{"problem": true}},
	}, (&api.WriteOptions{Namespace: a.Key.Namespace}).WithContext(ctx))
	w.record(audit.Entry{Action: audit.Report, Group: a.Group, Reason: a.Problems.Text()}, a.Key, err)
	if err != nil {
		return fmt.Errorf("reporting to %s: %w", a.Key, err)
	}
	return nil
}

// batchKey is the key of whether a job may adapt its batch, in the data of a scaling event
// without a count. The driver reads it; see driver/agent/leader/scaling.
const batchKey = "adapt_batch"

// TellBatch tells a job whether it may adapt its batch, by a scaling event that changes no
// count.
func (w *Writer) TellBatch(ctx context.Context, key identity.JobKey, group string, may bool) error {
	if err := w.turn(ctx); err != nil {
		return err
	}
	ctx, cancel := w.watcher.client.bounded(ctx)
	defer cancel()
	text := "the node pool does not let jobs adapt their batch: the job keeps its initial one (adapt_batch = false)"
	if may {
		text = "the node pool lets jobs adapt their batch"
	}
	_, _, err := w.watcher.client.Jobs().ScaleWithRequest(key.ID, &api.ScalingRequest{
		Target: groupTarget(group), Message: "kolo: " + text, Meta: map[string]any{metaKey: map[string]any{batchKey: may}},
	}, (&api.WriteOptions{Namespace: key.Namespace}).WithContext(ctx))
	w.record(audit.Entry{Action: audit.Report, Group: group, Reason: text}, key, err)
	if err != nil {
		return fmt.Errorf("telling %s about its batch: %w", key, err)
	}
	return nil
}

// record adds a write to the audit log.
func (w *Writer) record(e audit.Entry, key identity.JobKey, err error) {
	e.Namespace, e.Job, e.Err = key.Namespace, key.ID, err
	w.audit.Write(e)
}

// scaled applies the effect of a write to the store before Nomad reports it.
func (w *Watcher) scaled(key identity.JobKey, group string, count int, index uint64) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	old := w.store.jobs[key]
	if old == nil || old.change >= index {
		return
	}
	j := *old
	j.groups = append([]jobGroup(nil), old.groups...)
	for i := range j.groups {
		if j.groups[i].name == group {
			j.groups[i].count = count
		}
	}
	j.change, j.modify, j.version = index, max(j.modify, index), j.version+1
	w.store.jobs[key] = &j
	notify(w.wake)
}
