// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"cmp"
	"net/http"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// anyJob stands for a job of which only the namespace matters.
const anyJob = "kolo"

// usage shows what jobs used: of the namespaces that the caller may read.
func (s *Server) usage(r *http.Request, sc *scope) (any, error) {
	p, now := r.URL.Query(), time.Now()
	q := usage.Query{Pool: p.Get("pool")}
	var err error
	if q.By, err = usage.ParseBy(cmp.Or(p.Get("by"), string(usage.ByQueue))); err != nil {
		return nil, problem(http.StatusBadRequest, "by: %w", err)
	}
	if q.First, err = usage.ParseSince(cmp.Or(p.Get("since"), "30d"), now); err != nil {
		return nil, problem(http.StatusBadRequest, "since: %w", err)
	}
	namespace := p.Get("namespace")
	if id := p.Get("job"); id != "" {
		namespace = cmp.Or(namespace, "default")
		q.Job = identity.JobKey{Namespace: namespace, ID: id}
	}
	q.Namespaces = func(name string) (bool, error) {
		switch {
		case namespace != "" && name != namespace:
			return false, nil
		case sc.all:
			return true, nil
		case name == "": // the sum of many namespaces
			return false, nil
		}
		return sc.sees(r.Context(), identity.JobKey{Namespace: name, ID: anyJob})
	}
	rows, err := s.controller.Usage(r.Context(), q.First)
	if err != nil {
		return nil, err
	}
	if rows, err = q.Select(rows); err != nil {
		return nil, err
	}
	out := &api.UsageReport{From: q.First.String(), To: usage.DayOf(now).String(), By: q.By, Rows: []api.UsageRow{}}
	for i := range rows {
		out.Rows = append(out.Rows, api.NewUsageRow(&rows[i], q.By))
	}
	return out, nil
}
