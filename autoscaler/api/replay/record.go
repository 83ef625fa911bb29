// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
)

// requests lists what the page asks for besides jobs.
var requests = []string{
	"/v1/timeline?since=30m", "/v1/timeline?since=2h", "/v1/timeline?since=6h",
	"/v1/usage?by=pool&since=7d", "/v1/nodes", "/v1/plan", "/v1/policy",
}

const (
	// mostJobs bounds the jobs whose details are recorded at one time, because these take two
	// requests each.
	mostJobs = 100

	// mostEvents bounds the events between two frames. The newest stay.
	mostEvents = 1000

	askTimeout = 10 * time.Second
	retryAfter = 2 * time.Second // after a stream of events has ended
)

// Recorder records what the page reads.
type Recorder struct {
	Client func(context.Context) (*api.Client, error)
	Every  time.Duration // between two frames
	Warn   func(error)

	mu     sync.Mutex
	events [][]byte // since the last frame
}

// Record writes a recording until ctx ends. If the autoscaler does not answer, it tries again:
// the autoscaler may be restarted during a recording. A replay stands still for that time.
func (r *Recorder) Record(ctx context.Context, out io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		r.follow(ctx)
		return nil
	})
	g.Go(func() error { return r.frames(ctx, recording.NewWriter(out)) })
	return g.Wait()
}

func (r *Recorder) frames(ctx context.Context, w *recording.Writer) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	away, last, removed := false, time.Time{}, map[string]int{}
	for {
		f, err := r.frame(ctx)
		switch {
		case ctx.Err() != nil:
			return w.Flush()
		case err != nil && !away:
			r.Warn(err)
		case err == nil:
			last = later(last, f.At)
			f.At = last
			before := removed
			removed = f.Fit()
			for _, request := range slices.Sorted(maps.Keys(removed)) {
				if before[request] == 0 {
					r.Warn(fmt.Errorf("a recording has no room for an answer of %d bytes, which is left out: %s", removed[request], request))
				}
			}
			if err := w.Add(f); err != nil {
				return errors.Join(err, w.Flush())
			}
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return w.Flush()
		case <-tick.C:
		}
	}
}

// later returns the time of a frame, in whole milliseconds: that of the clock, unless it was set
// back behind the last frame.
func later(last, clock time.Time) time.Time {
	if at := clock.Round(0).Truncate(time.Millisecond); at.After(last) {
		return at
	}
	return last.Add(time.Millisecond)
}

// frame asks for everything. An answer that the autoscaler refuses is left out.
func (r *Recorder) frame(ctx context.Context) (*recording.Frame, error) {
	c, err := r.Client(ctx)
	if err != nil {
		return nil, err
	}
	f := &recording.Frame{At: time.Now(), Answers: map[string][]byte{}}
	text, err := ask(ctx, c, "/v1/status")
	if err != nil {
		return nil, err
	}
	f.Answers["/v1/status"] = text
	var s api.Status
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("the autoscaler's status: %w", err)
	}
	for _, request := range slices.Concat(requests, ofJobs(&s)) {
		text, err := ask(ctx, c, request)
		if away := (*url.Error)(nil); errors.As(err, &away) {
			return nil, err
		}
		if err == nil {
			f.Answers[request] = text
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Events, r.events = r.events, nil
	return f, nil
}

func ask(ctx context.Context, c *api.Client, request string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.Do(ctx, http.MethodGet, request, nil, nil, nil)
}

// ofJobs returns the requests for details of jobs: those of the first mostJobs jobs that are
// not complete, then of the others.
func ofJobs(s *api.Status) (out []string) {
	jobs := slices.Clone(s.Jobs)
	slices.SortStableFunc(jobs, func(a, b api.JobStatus) int {
		return rank(&a) - rank(&b)
	})
	for i := range jobs[:min(len(jobs), mostJobs)] {
		query := url.Values{"namespace": {jobs[i].Namespace}, "id": {jobs[i].ID}}.Encode()
		out = append(out, "/v1/job?"+query, "/v1/series?"+query)
	}
	return out
}

func rank(j *api.JobStatus) int {
	if j.State == api.StateComplete {
		return 1
	}
	return 0
}

// follow collects events until ctx ends.
func (r *Recorder) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if c, err := r.Client(ctx); err == nil {
			_ = c.Events(ctx, func() {}, r.event) // frames report that the autoscaler is gone
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

func (r *Recorder) event(e api.Event) {
	text, err := json.Marshal(e)
	if err != nil {
		return // impossible: each field of an Event can be marshaled
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, text)
	r.events = r.events[max(0, len(r.events)-mostEvents):]
}

// canonical returns a request as recordings have it: with its parameters in order.
func canonical(u *url.URL) string {
	if query := u.Query().Encode(); query != "" {
		return strings.TrimSuffix(u.Path, "/") + "?" + query
	}
	return strings.TrimSuffix(u.Path, "/")
}
