// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	_ "embed" // the page
	"errors"
	"fmt"
	"net/http"

	"github.com/kolo-nomad/kolo/autoscaler/agent"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

//go:embed page.html
var pageHTML []byte

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'")
	_, _ = w.Write(pageHTML) // a reader that went away
}

// Job is the answer of GET /v1/job.
type Job struct {
	Job     *agent.JobStatus `json:"job"`
	Aside   *agent.AsideJob  `json:"aside,omitempty"`
	History []cluster.Change `json:"history"` // newest first
}

func (s *Server) job(w http.ResponseWriter, r *http.Request) {
	key := planner.JobKey{Namespace: r.URL.Query().Get("namespace"), ID: r.URL.Query().Get("id")}
	if key.Namespace == "" {
		key.Namespace = "default"
	}
	if key.ID == "" {
		refuse(w, http.StatusBadRequest, errors.New("which job? write ?id=<job>&namespace=<namespace>"))
		return
	}
	out := Job{}
	st := s.agent.Status()
	for i := range st.Jobs {
		if st.Jobs[i].Namespace == key.Namespace && st.Jobs[i].ID == key.ID {
			out.Job = &st.Jobs[i]
		}
	}
	for i := range st.Aside {
		if st.Aside[i].Namespace == key.Namespace && st.Aside[i].ID == key.ID {
			out.Aside = &st.Aside[i]
		}
	}
	if out.Job == nil && out.Aside == nil {
		refuse(w, http.StatusNotFound, fmt.Errorf("kolo does not look after a job %s; a job asks for it with scaling { policy { kolo {} } }", key))
		return
	}
	var err error
	if out.History, err = s.agent.History(r.Context(), key); err != nil {
		fail(w, err)
		return
	}
	answer(w, out)
}

func (s *Server) plan(w http.ResponseWriter, r *http.Request) {
	out, err := s.agent.Propose(r.URL.Query().Get("policy"))
	switch {
	case errors.Is(err, cluster.ErrNotReady):
		fail(w, err)
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
	default:
		answer(w, out)
	}
}

// Policies is the answer of GET /v1/policy.
type Policies struct {
	Configured map[string]string `json:"configured"` // by node pool; "*" is every other
	Set        map[string]string `json:"set"`        // by users, while running
	BuiltIn    []string          `json:"built_in"`
	Own        []string          `json:"own,omitempty"` // programs in policy_dir
}

func (s *Server) policies(w http.ResponseWriter, _ *http.Request) {
	configured, set := s.agent.Pools()
	answer(w, Policies{configured, set, policy.Names(), s.agent.Own()})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.agent.Health(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, map[string]any{"healthy": true, "leading": s.agent.Status().Leading})
}
