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

// Stated is what the autoscaler has stated in the job's scaling events.
type Stated struct {
	// Groups holds the sizes of the groups whose sizes are known, nil if it is none.
	Groups map[string]elastic.GroupSize
	// KeepBatch is whether the job must not adapt its batch. BatchStated is false if no event is
	// about that.
	KeepBatch, BatchStated bool
	// Denied is whether Nomad does not let the identity read the job. Nothing else is known then.
	Denied bool
}

func (s *Stated) equal(o *Stated) bool {
	return maps.Equal(s.Groups, o.Groups) && s.KeepBatch == o.KeepBatch && s.BatchStated == o.BatchStated
}

// Watch calls report with what the autoscaler has stated, and again whenever that changes,
// until ctx ends. If Nomad refuses to answer twice in a row, what was stated may be out of date
// for good, and Watch reports that reading is denied. It calls ready once, after the first read or
// its failure.
func (r *Reader) Watch(ctx context.Context, report func(Stated), ready func()) {
	first, cancel := context.WithTimeout(ctx, firstWait)
	stated, index, err := r.read(first, 0)
	cancel()
	if err == nil {
		report(stated)
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
		var now Stated
		now, index, err = r.read(ctx, index)
		switch again := denied; {
		case err == nil && (!known || !now.equal(&stated)):
			known, stated = true, now
			report(stated)
		case again && known && refused(err):
			known = false
			report(Stated{Denied: true})
		}
		denied = refused(err)
	}
}

// refused reports whether Nomad does not let the identity read the job.
func refused(err error) bool { return errors.Is(nomadapi.Explain(err, ""), nomadapi.ErrForbidden) }

// read reads the job's scaling status once it is newer than index.
func (r *Reader) read(ctx context.Context, index uint64) (Stated, uint64, error) {
	secret, err := r.token.Read()
	if err != nil {
		return Stated{}, 0, err
	}
	q := (&api.QueryOptions{AuthToken: secret, WaitIndex: index, WaitTime: longPoll}).WithContext(ctx)
	status, meta, err := r.client.Jobs().ScaleStatus(r.job, q)
	if err != nil {
		return Stated{}, 0, err //nolint:wrapcheck // Watch logs it
	}
	next := meta.LastIndex
	if next < index {
		next = 0 // Nomad's state was restored
	}
	stated := Stated{Groups: sizes(status)}
	stated.KeepBatch, stated.BatchStated = keepBatch(status)
	return stated, next, nil
}

// keepBatch returns what the newest event about the job's batch states. Such an event does
// not change a count.
func keepBatch(status *api.JobScaleStatusResponse) (keep, known bool) {
	newest := uint64(0)
	for _, g := range status.TaskGroups {
		for i := range g.Events {
			if adapt := dataOf(g.Events[i].Meta).AdaptBatch; adapt != nil && g.Events[i].Time >= newest {
				newest, keep, known = g.Events[i].Time, !*adapt, true
			}
		}
	}
	return keep, known
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
	spare := dataOf(meta).Spare
	if spare == nil || *spare < 0 {
		return 0, false
	}
	return *spare, true
}

// data is what the autoscaler states in an event, nil if it does not.
type data struct {
	Spare      *int  `json:"spare"`
	AdaptBatch *bool `json:"adapt_batch"`
}

// dataOf returns the data of an event, none if it is not one of the autoscaler.
func dataOf(meta map[string]any) data {
	var d data
	text, err := json.Marshal(meta["kolo"])
	if err != nil || json.Unmarshal(text, &d) != nil {
		return data{}
	}
	return d
}
