// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

// answers returns a handler that answers with the result of show.
func answers(show func(*http.Request, *scope) (any, error)) func(http.ResponseWriter, *http.Request, *scope) {
	return func(w http.ResponseWriter, r *http.Request, sc *scope) {
		out, err := show(r, sc)
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, out)
	}
}

func (s *Server) status(r *http.Request, sc *scope) (any, error) {
	return sc.status(r.Context(), s.controller.Status())
}

func (s *Server) job(r *http.Request, sc *scope) (any, error) {
	key, err := jobKey(r)
	if err != nil {
		return nil, err
	}
	out := api.Job{}
	st := s.controller.Status()
	for i := range st.Jobs {
		if st.Jobs[i].JobKey == key {
			out.Job = &st.Jobs[i]
		}
	}
	for i := range st.Ineligible {
		if st.Ineligible[i].JobKey == key {
			out.Ineligible = &st.Ineligible[i]
		}
	}
	may, err := sc.sees(r.Context(), key)
	switch {
	case err != nil:
		return nil, err
	case !st.Ready: // or a client that waits for the job would give up
		return nil, cluster.ErrNotReady
	}
	if !may || out.Job == nil && out.Ineligible == nil {
		visible, err := sc.status(r.Context(), st)
		if err != nil {
			return nil, err
		}
		if hint := meant(key, keysOf(visible)); hint != "" {
			return nil, problem(http.StatusNotFound, "kolo does not scale a job %s%s", key, hint)
		}
		return nil, notOurs(key)
	}
	out.JobDetail = *s.controller.JobDetail(key)
	out.History, err = s.controller.History(r.Context(), key)
	return out, err
}

// plan shows what the policies in force would do, to callers who may read. With
// another policy, the caller controls by its options how long it takes, so that
// requires proof of identity.
func (s *Server) plan(r *http.Request, sc *scope) (any, error) {
	line := r.URL.Query().Get("policy")
	if line != "" {
		if _, err := s.admit(r, "asking another policy than those in force", ""); err != nil {
			return nil, err
		}
	}
	return s.propose(r, sc, line, nil)
}

// planChanged shows what the policies would do with the pools of another configuration. It
// requires a proof, as another policy does.
func (s *Server) planChanged(r *http.Request, sc *scope) (any, error) {
	if _, err := s.admit(r, "asking with another configuration than the one in force", ""); err != nil {
		return nil, err
	}
	var in api.PlanRequest
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	pools, err := config.ParsePools([]byte(in.Pools), s.controller.Config().PolicyDir)
	if err != nil {
		return nil, problem(http.StatusBadRequest, "%w", err)
	}
	return s.propose(r, sc, in.Policy, pools)
}

func (s *Server) propose(r *http.Request, sc *scope, line string, pools map[string]config.Pool) (any, error) {
	give := slot(r.Context(), s.quota(r).plans, 0)
	if give == nil {
		return nil, tooMany("1", "other plans are being made; try again in a moment")
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.limits.plan, errSlowPlan)
	out, err := s.controller.Propose(ctx, line, pools)
	cancel()
	give()
	switch {
	case errors.Is(err, cluster.ErrNotReady):
		return nil, err
	case errors.Is(err, errSlowPlan):
		return nil, problem(http.StatusServiceUnavailable, "%w (%s)", errSlowPlan, s.limits.plan)
	case err != nil && !sc.all:
		// The error of a policy may name any job.
		return nil, problem(http.StatusBadRequest, "the policy cannot be asked; kolo policy explain checks how it is written")
	case err != nil:
		return nil, problem(http.StatusBadRequest, "%w", err)
	}
	for i := range out {
		if out[i].Jobs, err = seen(r.Context(), sc, out[i].Jobs, func(j *api.ProposedJob) identity.JobKey { return j.JobKey }); err != nil {
			return nil, err
		}
		if out[i].Ineligible, err = seen(r.Context(), sc, out[i].Ineligible, func(j *api.IneligibleJob) identity.JobKey { return j.JobKey }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

var errSlowPlan = errors.New("the policies take longer than a plan may")

// topology shows the domains and their slots to every caller, as status does for
// pools. It shows only the jobs that the caller may read. Problems name nodes, so
// only callers who may read everything see them.
func (s *Server) topology(r *http.Request, sc *scope) (any, error) {
	out, err := s.controller.Topology()
	if err != nil || sc.all {
		return out, err
	}
	for i := range out {
		out[i].Problems = nil
		if out[i].Jobs, err = seen(r.Context(), sc, out[i].Jobs, func(j *api.JobSpread) identity.JobKey { return j.JobKey }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Server) policies(*http.Request, *scope) (any, error) {
	configured, set := s.controller.Pools()
	return api.Policies{Configured: configured, Set: set, BuiltIn: builtin.Policies.Names(), External: s.controller.ExternalPolicies()}, nil
}

// metrics serves the sums to everyone, because Prometheus usually has no token. It
// serves the series of jobs to callers who may read them.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	sees := func(identity.JobKey) bool { return false }
	sc, err := s.scope(r)
	switch {
	case err == nil:
		sees = func(key identity.JobKey) bool {
			may, err := sc.sees(r.Context(), key)
			return may && err == nil
		}
	case token(r) != "":
		fail(w, err)
		return
	}
	s.limited(func(w http.ResponseWriter, r *http.Request, _ *scope) {
		jobs := prometheus.NewRegistry()
		jobs.MustRegister(s.controller.JobMetrics(sees))
		promhttp.HandlerFor(prometheus.Gatherers{s.controller.Registry(), jobs}, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})(w, r, sc)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.controller.Health(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, map[string]any{"healthy": true, "leading": s.controller.Status().Leading})
}
