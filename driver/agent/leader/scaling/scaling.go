// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

const (
	// firstWait bounds the first read. A leader waits for it, so that a new leader does not
	// take spares into the ring.
	firstWait = 2 * time.Second
	longPoll  = 5 * time.Minute        // longest time that Nomad holds a request
	pollPause = 500 * time.Millisecond // between two requests: each allocation's change ends one
	retry     = 30 * time.Second       // after an error; most often, the identity may not read the job
)

// Reader reads the scaling status of an agent's job. With ACLs, the job's identity needs a
// policy with read-job-scaling or read-job.
type Reader struct {
	client *api.Client
	token  nomadapi.Token
	job    string
	log    hclog.Logger
	retry  time.Duration
}

// New returns a Reader of an agent's job.
func New(c config.Config, token nomadapi.Token, log hclog.Logger) (*Reader, error) {
	client, err := nomadapi.NewClient(c.NomadAddr)
	if err != nil {
		return nil, err
	}
	client.SetNamespace(c.Namespace)
	return &Reader{client: client, token: token, job: c.JobID, log: log, retry: retry}, nil
}

// Watch calls report with the sizes of the job's groups, and again whenever they change, until
// ctx ends. Groups whose sizes are not known are left out. If Nomad refuses to answer twice in a
// row, the sizes may be out of date for good, and Watch reports that it may not read them. Watch
// calls ready once, after the first read or its failure.
func (r *Reader) Watch(ctx context.Context, report func(groups map[string]elastic.GroupSize, may bool), ready func()) {
	first, cancel := context.WithTimeout(ctx, firstWait)
	groups, index, err := r.read(first, 0)
	cancel()
	if err == nil {
		report(groups, true)
	}
	ready()
	known, denied := err == nil, false
	for ctx.Err() == nil {
		pause := pollPause
		if err != nil {
			r.log.Debug("the job's counts can't be read; it keeps no spare hosts for the autoscaler", "error", err)
			index, pause = 0, r.retry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var now map[string]elastic.GroupSize
		now, index, err = r.read(ctx, index)
		switch again := denied; {
		case err == nil && (!known || !maps.Equal(now, groups)):
			known, groups = true, now
			report(groups, true)
		case again && known && refused(err):
			known = false
			report(nil, false)
		}
		denied = refused(err)
	}
}

// refused reports whether Nomad does not let the identity read the job.
func refused(err error) bool { return errors.Is(nomadapi.Explain(err, ""), nomadapi.ErrForbidden) }

// read reads the job's scaling status once it is newer than index.
func (r *Reader) read(ctx context.Context, index uint64) (map[string]elastic.GroupSize, uint64, error) {
	secret, err := r.token.Read()
	if err != nil {
		return nil, 0, err
	}
	q := (&api.QueryOptions{AuthToken: secret, WaitIndex: index, WaitTime: longPoll}).WithContext(ctx)
	status, meta, err := r.client.Jobs().ScaleStatus(r.job, q)
	if err != nil {
		return nil, 0, err //nolint:wrapcheck // Watch logs it
	}
	next := meta.LastIndex
	if next < index {
		next = 0 // Nomad's state was restored
	}
	return sizes(status), next, nil
}

// sizes returns the sizes of the groups whose sizes are known, or nil if it is none.
func sizes(status *api.JobScaleStatusResponse) map[string]elastic.GroupSize {
	var groups map[string]elastic.GroupSize
	for name, g := range status.TaskGroups {
		newest := -1
		for i := range g.Events {
			if g.Events[i].Count != nil && (newest < 0 || g.Events[i].Time > g.Events[newest].Time) {
				newest = i
			}
		}
		if newest < 0 || *g.Events[newest].Count != int64(g.Desired) {
			continue // the job was registered with another count
		}
		if spare, ok := spareOf(g.Events[newest].Meta); ok {
			if groups == nil {
				groups = map[string]elastic.GroupSize{}
			}
			groups[name] = elastic.GroupSize{Train: g.Desired - min(spare, g.Desired), Spare: min(spare, g.Desired)}
		}
	}
	return groups
}

// spareOf returns how many allocations of the count are spares, as an event of the autoscaler
// states it.
func spareOf(meta map[string]any) (n int, ok bool) {
	text, err := json.Marshal(meta["kolo"])
	if err != nil {
		return 0, false
	}
	var e struct {
		Spare *int `json:"spare"`
	}
	if json.Unmarshal(text, &e) != nil || e.Spare == nil || *e.Spare < 0 {
		return 0, false
	}
	return *e.Spare, true
}
