// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// defaultPast is the period of a timeline unless the caller requests another.
const defaultPast = 2 * time.Hour

// timeline returns the slots of each job over time. It adds up the jobs that the caller may
// not read, as status does for pools.
func (s *Server) timeline(r *http.Request, sc *scope) (any, error) {
	past := defaultPast
	if text := r.URL.Query().Get("since"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, problem(http.StatusBadRequest, `since: %q is not a duration; write one such as "30m" or "2h"`, text)
		}
		past = d
	}
	out := s.controller.Timeline(time.Now().Add(-past))
	if sc.all {
		return out, nil
	}
	hidden := map[string][]api.JobLine{}
	shown := []api.JobLine{}
	for i := range out.Jobs {
		l := &out.Jobs[i]
		may, err := sc.sees(r.Context(), l.JobKey)
		switch {
		case err != nil:
			return nil, err
		case may:
			shown = append(shown, *l)
		default:
			hidden[l.Pool] = append(hidden[l.Pool], *l)
		}
	}
	for pool, lines := range hidden {
		shown = append(shown, api.JobLine{Pool: pool, Slots: sum(lines)})
	}
	out.Jobs = shown
	events := []api.Event{}
	for i := range out.Events {
		e := &out.Events[i]
		may, err := sc.may(r.Context(), e)
		if err != nil {
			return nil, err
		}
		if may {
			events = append(events, *e)
		}
	}
	out.Events = events
	return out, nil
}

// may reports whether the caller may read an event.
func (sc *scope) may(ctx context.Context, e *api.Event) (bool, error) {
	if e.Job == "" {
		return true, nil
	}
	return sc.sees(ctx, identity.JobKey{Namespace: e.Namespace, ID: e.ID})
}

// sum returns the sum of several lines.
func sum(lines []api.JobLine) (out []api.SlotsAt) {
	var steps []api.SlotsAt // differences
	for i := range lines {
		before := 0
		for _, p := range lines[i].Slots {
			steps = append(steps, api.SlotsAt{At: p.At, Slots: p.Slots - before})
			before = p.Slots
		}
	}
	slices.SortStableFunc(steps, func(a, b api.SlotsAt) int { return a.At.Compare(b.At) })
	total := 0
	for _, p := range steps {
		total += p.Slots
		if n := len(out); n > 0 && out[n-1].At.Equal(p.At) {
			out[n-1].Slots = total
		} else {
			out = append(out, api.SlotsAt{At: p.At, Slots: total})
		}
	}
	return out
}

// nodes returns the nodes and their slots to every caller, as topology does. It omits the
// names of jobs that the caller may not read. Only callers who may read everything get the
// problems of devices, because a device plugin can put any text into them.
func (s *Server) nodes(r *http.Request, sc *scope) (any, error) {
	out, err := s.controller.Nodes()
	if err != nil || sc.all {
		return out, err
	}
	for i := range out {
		n := &out[i]
		n.Problems = nil
		for k := range n.Held {
			h := &n.Held[k]
			may, err := sc.sees(r.Context(), *h.JobKey)
			if err != nil {
				return nil, err
			}
			if !may {
				h.JobKey, h.Alloc = nil, ""
			}
		}
	}
	return out, nil
}

// jobKey returns the key of the job that a request names.
func jobKey(r *http.Request) (identity.JobKey, error) {
	key := identity.JobKey{Namespace: cmp.Or(r.URL.Query().Get("namespace"), "default"), ID: r.URL.Query().Get("id")}
	if key.ID == "" {
		return key, problem(http.StatusBadRequest, "which job? write ?id=<job>&namespace=<namespace>")
	}
	return key, nil
}

// series returns the reports of a job's training.
func (s *Server) series(r *http.Request, sc *scope) (any, error) {
	key, err := jobKey(r)
	if err != nil {
		return nil, err
	}
	may, err := sc.sees(r.Context(), key)
	if err != nil {
		return nil, err
	}
	if may {
		if out := s.controller.Series(key); out != nil {
			return out, nil
		}
	}
	if !s.controller.Status().Ready {
		return nil, cluster.ErrNotReady
	}
	return nil, notOurs(key)
}

// notOurs returns the error for a job that does not exist for the caller.
func notOurs(key identity.JobKey) error {
	return problem(http.StatusNotFound, "kolo does not scale a job %s; to have a job scaled, add scaling { policy { kolo {} } } to it", key)
}
