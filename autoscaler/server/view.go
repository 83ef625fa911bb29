// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// view is what a caller may read: everything, or the jobs of the namespaces
// whose jobs Nomad lets the token read.
type view struct {
	tokens     Tokens
	token      string
	all        bool
	namespaces map[string]bool // asked so far, for one request
}

// view returns what the caller of a request may read, or an error for one who
// may not read at all.
func (s *Server) view(r *http.Request) (*view, error) {
	if _, ok := local(r); ok || !s.controller.Config().HTTP.ReadToken {
		return &view{all: true}, nil
	}
	given := token(r)
	if given == "" {
		return nil, problem(http.StatusUnauthorized, "reading takes a proof here: %s", s.remedy(errNoToken.Error()))
	}
	_, err := s.tokens.Identify(r.Context(), given)
	switch {
	case errors.Is(err, cluster.ErrNoACL):
		return nil, problem(http.StatusForbidden, "%w, so a token proves nothing: %s", err, s.remedy("remove http { read_token } from the configuration"))
	case errors.Is(err, cluster.ErrUnknownToken):
		return nil, problem(http.StatusForbidden, "%w", err)
	case err != nil:
		return nil, err
	}
	return &view{tokens: s.tokens, token: given, namespaces: map[string]bool{}}, nil
}

// reads makes a handler of a request that shows jobs.
func (s *Server) reads(h func(http.ResponseWriter, *http.Request, *view)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := s.view(r)
		if err != nil {
			fail(w, err)
			return
		}
		h(w, r, v)
	}
}

// debugging makes a handler of what shows the process itself, and with it all
// jobs.
func (s *Server) debugging(h http.HandlerFunc) http.HandlerFunc {
	return s.reads(func(w http.ResponseWriter, r *http.Request, v *view) {
		if !s.controller.Config().HTTP.Debug {
			http.NotFound(w, r) // a reload may have turned it off
			return
		}
		if !v.all {
			refuse(w, http.StatusForbidden, errors.New("with http { read_token } profiles are served on the Unix socket only: they show every namespace"))
			return
		}
		h(w, r)
	})
}

// sees says whether the caller may read a job.
func (v *view) sees(ctx context.Context, key planner.JobKey) (bool, error) {
	if v.all {
		return true, nil
	}
	may, ok := v.namespaces[key.Namespace]
	if ok {
		return may, nil
	}
	may, err := v.tokens.MayRead(ctx, v.token, key)
	if err == nil {
		v.namespaces[key.Namespace] = may
	}
	return may, err
}

// status is a status without what the caller may not read. Of pools it keeps
// the sums, and drops problems: those may name jobs.
func (v *view) status(ctx context.Context, s *api.Status) (*api.Status, error) {
	if v.all {
		return s, nil
	}
	out := *s
	var err error
	if out.Jobs, err = seen(ctx, v, s.Jobs, func(j *api.JobStatus) planner.JobKey { return planner.JobKey{Namespace: j.Namespace, ID: j.ID} }); err != nil {
		return nil, err
	}
	if out.Ineligible, err = seen(ctx, v, s.Ineligible, func(j *api.IneligibleJob) planner.JobKey { return planner.JobKey{Namespace: j.Namespace, ID: j.ID} }); err != nil {
		return nil, err
	}
	out.Pools = append([]api.PoolStatus{}, s.Pools...)
	for i := range out.Pools {
		if out.Pools[i].Problem != "" {
			out.Pools[i].Problem = "the policy failed; the last good decision stays in force"
		}
	}
	return &out, nil
}

// seen are the items whose jobs the caller may read.
func seen[T any](ctx context.Context, v *view, all []T, key func(*T) planner.JobKey) ([]T, error) {
	out := []T{}
	for i := range all {
		may, err := v.sees(ctx, key(&all[i]))
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, all[i])
		}
	}
	return out, nil
}
