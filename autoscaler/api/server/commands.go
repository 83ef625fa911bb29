// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/text/suggest"
)

func (s *Server) setPolicy(_ http.ResponseWriter, r *http.Request, c caller, e *audit.Entry) error {
	var in api.SetPolicy
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Pool == "" {
		return problem(http.StatusBadRequest, `which pool? write {"pool": "default", "policy": "…"}`)
	}
	_, set := s.controller.Pools()
	e.Pool, e.Change = in.Pool, orConfigured(set[in.Pool])+"→"+orConfigured(in.Policy)
	if in.Policy != "" {
		if known := s.pools(); s.controller.Status().Ready && !slices.Contains(known, in.Pool) {
			hint := suggest.Hint("", in.Pool, known)
			if hint == "" {
				hint = "; there are " + strings.Join(known, ", ")
			}
			return problem(http.StatusNotFound, "there is no node pool %q%s", in.Pool, hint)
		}
	}
	err := s.controller.SetPolicy(r.Context(), c.token, in.Pool, in.Policy)
	if err != nil && cluster.Classify(err) == cluster.Away && !errors.Is(err, leader.ErrNotLeading) {
		// The fault is in the policy, not in Nomad's API.
		return problem(http.StatusBadRequest, "%w", err)
	}
	return err
}

func orConfigured(line string) string { return cmp.Or(line, "as configured") }

// pools returns the node pools that have nodes, jobs, or their own block in the
// configuration.
func (s *Server) pools() []string {
	configured, _ := s.controller.Pools()
	delete(configured, config.AnyPool)
	return slices.Sorted(maps.Keys(configured))
}

// unknown returns an error if the autoscaler has not seen the job: the name is more
// likely mistyped than that of a future job. The error suggests only names that the
// caller may read.
func (s *Server) unknown(r *http.Request, key identity.JobKey) error {
	sc, err := s.scope(r)
	if err != nil {
		return err
	}
	st, err := sc.status(r.Context(), s.controller.Status())
	if err != nil {
		return err
	}
	known := keysOf(st)
	if !st.Ready || slices.Contains(known, key) {
		return nil
	}
	return problem(http.StatusNotFound, "kolo does not scale a job %s%s", key, meant(key, known))
}

// keysOf returns the keys of the jobs in a status.
func keysOf(st *api.Status) (keys []identity.JobKey) {
	for i := range st.Jobs {
		keys = append(keys, st.Jobs[i].JobKey)
	}
	for i := range st.Ineligible {
		keys = append(keys, st.Ineligible[i].JobKey)
	}
	return keys
}

// meant returns a hint for a message about an unknown job: the job with the same name in
// another namespace, or one with a similar name. It returns "" if there is none.
func meant(key identity.JobKey, known []identity.JobKey) string {
	if other, ok := key.Namesake(known); ok {
		return fmt.Sprintf("; did you mean %q?", other)
	}
	var names []string
	for _, k := range known {
		names = append(names, k.String())
	}
	return suggest.Hint("", key.String(), names)
}

// setPaused returns the command that pauses jobs, or resumes them.
func (s *Server) setPaused(paused bool) commandFunc {
	return func(_ http.ResponseWriter, r *http.Request, c caller, e *audit.Entry) error {
		var key identity.JobKey
		if err := decode(r, &key); err != nil {
			return err
		}
		if key.ID == "" {
			e.Job = "all jobs"
			return s.controller.SetPaused(r.Context(), c.token, identity.JobKey{}, paused)
		}
		key.Namespace = cmp.Or(key.Namespace, "default")
		e.Namespace, e.Job = key.Namespace, key.ID
		if paused || !s.controller.Paused(key) { // the pause of a job that is gone can be ended
			if err := s.unknown(r, key); err != nil {
				return err
			}
		}
		return s.controller.SetPaused(r.Context(), c.token, key, paused)
	}
}

func (s *Server) reloading(_ http.ResponseWriter, r *http.Request, c caller, _ *audit.Entry) error {
	if c.token != "" {
		if err := s.controller.MayCommand(r.Context(), c.token); err != nil {
			return err
		}
	}
	if err := s.reload(); err != nil {
		return problem(http.StatusBadRequest, "the configuration: %w", err)
	}
	return nil
}
