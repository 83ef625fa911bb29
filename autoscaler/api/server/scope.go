// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// scope is what a caller may read: everything, or the jobs of the namespaces that
// Nomad lets the token read.
type scope struct {
	tokens     Tokens
	token      string
	all        bool
	namespaces map[string]bool // answers so far, for one request
}

// scope returns what the caller of a request may read, or an error if the caller
// may not read at all.
func (s *Server) scope(r *http.Request) (*scope, error) {
	if _, ok := local(r); ok || !s.controller.Config().HTTP.ReadToken {
		return &scope{all: true}, nil
	}
	given := token(r)
	if given == "" {
		return nil, problem(http.StatusUnauthorized, "reading requires a proof here: %s", s.remedy(errNoToken.Error()+"; where access control is off in Nomad, remove http { read_token } from the configuration"))
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
	return &scope{tokens: s.tokens, token: given, namespaces: map[string]bool{}}, nil
}

// reads returns a handler for a request that shows jobs.
func (s *Server) reads(h func(http.ResponseWriter, *http.Request, *scope)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sc, err := s.scope(r)
		if err != nil {
			fail(w, err)
			return
		}
		h(w, r, sc)
	}
}

// debugging returns a handler for profiles of the process, which reveal data of all
// jobs.
func (s *Server) debugging(h http.HandlerFunc) http.HandlerFunc {
	return s.reads(func(w http.ResponseWriter, r *http.Request, sc *scope) {
		if !s.controller.Config().HTTP.Debug {
			http.NotFound(w, r) // a reload may have turned it off
			return
		}
		if !sc.all {
			refuse(w, http.StatusForbidden, errors.New("with http { read_token } profiles are served on the Unix socket only: they show every namespace"))
			return
		}
		h(w, r)
	})
}

// sees reports whether the caller may read a job.
func (sc *scope) sees(ctx context.Context, key identity.JobKey) (bool, error) {
	if sc.all {
		return true, nil
	}
	may, ok := sc.namespaces[key.Namespace]
	if ok {
		return may, nil
	}
	may, err := sc.tokens.MayRead(ctx, sc.token, key)
	if err == nil {
		sc.namespaces[key.Namespace] = may
	}
	return may, err
}

// status returns the parts of a status that the caller may read. It keeps the sums
// of pools and drops their problems, which may name jobs.
func (sc *scope) status(ctx context.Context, s *api.Status) (*api.Status, error) {
	if sc.all {
		return s, nil
	}
	out := *s
	var err error
	if out.Jobs, err = seen(ctx, sc, s.Jobs, func(j *api.JobStatus) identity.JobKey { return j.JobKey }); err != nil {
		return nil, err
	}
	if out.Ineligible, err = seen(ctx, sc, s.Ineligible, func(j *api.IneligibleJob) identity.JobKey { return j.JobKey }); err != nil {
		return nil, err
	}
	if out.Blocked, err = seen(ctx, sc, s.Blocked, func(j *api.BlockedJob) identity.JobKey { return j.JobKey }); err != nil {
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

// seen returns the items whose jobs the caller may read.
func seen[T any](ctx context.Context, sc *scope, all []T, key func(*T) identity.JobKey) ([]T, error) {
	out := []T{}
	for i := range all {
		may, err := sc.sees(ctx, key(&all[i]))
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, all[i])
		}
	}
	return out, nil
}
