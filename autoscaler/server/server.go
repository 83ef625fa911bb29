// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	_ "embed" // the page
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kolo-nomad/kolo/autoscaler/agent"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy"
)

// Agent is what the API needs of an agent.
type Agent interface {
	Status() *agent.Status
	Health() error
	Config() *config.Config
	Registry() *prometheus.Registry
	Propose(line string) ([]agent.Proposal, error)
	Pools() (configured, set map[string]string)
	History(context.Context, planner.JobKey) ([]cluster.Change, error)
	Watch() (<-chan agent.Event, func())
	SetPolicy(ctx context.Context, token, pool, line string) error
	Pause(ctx context.Context, token string, key planner.JobKey) error
	Resume(ctx context.Context, token string, key planner.JobKey) error
	May(ctx context.Context, token string) error
}

// Server answers HTTP requests.
type Server struct {
	agent  Agent
	reload func() error
	log    hclog.Logger
	mux    *http.ServeMux
}

// New makes a server. reload reads the configuration again.
func New(a Agent, reload func() error, log hclog.Logger) *Server {
	s := &Server{agent: a, reload: reload, log: log, mux: http.NewServeMux()}
	for pattern, h := range s.routes() {
		s.mux.HandleFunc(pattern, h)
	}
	s.mux.Handle("GET /v1/metrics", promhttp.HandlerFor(a.Registry(), promhttp.HandlerOpts{}))
	if a.Config().HTTP.Debug {
		s.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		s.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return s
}

func (s *Server) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /{$}":       page,
		"GET /v1/status": func(w http.ResponseWriter, _ *http.Request) { answer(w, s.agent.Status()) },
		"GET /v1/job":    s.job,
		"GET /v1/plan":   s.plan,
		"GET /v1/policy": s.policies,
		"PUT /v1/policy": s.setPolicy,
		"PUT /v1/pause":  s.pausing(s.agent.Pause),
		"PUT /v1/resume": s.pausing(s.agent.Resume),
		"PUT /v1/reload": s.reloading,
		"GET /v1/health": s.health,
		"GET /v1/events": s.events,
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve listens until the context ends. ready is called with the address.
func (s *Server) Serve(ctx context.Context, c config.HTTP, ready func(net.Addr)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Bind, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("listening for the HTTP API: %w", err)
	}
	ready(l.Addr())
	// Event streams end with the context, so that Shutdown need not wait.
	hs := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving the HTTP API: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := hs.Shutdown(last); err != nil {
		s.log.Debug("cutting off requests that did not end", "error", errors.Join(err, hs.Close()))
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the HTTP API: %w", err)
	}
	return nil
}

//go:embed page.html
var pageHTML []byte

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'")
	_, _ = w.Write(pageHTML) // a reader that went away
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return // the reader went away
	}
}

// Problem is the answer to a request that failed.
type Problem struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Problem{err.Error()}) // a reader that went away
}

// fail maps errors of the agent and of Nomad to status codes.
func fail(w http.ResponseWriter, err error) {
	switch kind := cluster.Classify(err); {
	case errors.Is(err, agent.ErrFollower):
		refuse(w, http.StatusConflict, fmt.Errorf("%w; ask the agent that holds the lock (kolo status shows which agent leads)", err))
	case errors.Is(err, cluster.ErrNotReady):
		refuse(w, http.StatusServiceUnavailable, err)
	case kind == cluster.Forbidden:
		refuse(w, http.StatusForbidden, fmt.Errorf("the token may not write the variable kolo/control: %w", err))
	case kind == cluster.Gone:
		refuse(w, http.StatusNotFound, err)
	default:
		refuse(w, http.StatusBadGateway, err)
	}
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
}

func (s *Server) policies(w http.ResponseWriter, _ *http.Request) {
	configured, set := s.agent.Pools()
	answer(w, Policies{configured, set, policy.Names()})
}

// SetPolicy is the body of PUT /v1/policy.
type SetPolicy struct {
	Pool   string `json:"pool"`
	Policy string `json:"policy"` // name, or name(option=value, …); "" is as configured
}

func (s *Server) setPolicy(w http.ResponseWriter, r *http.Request) {
	var in SetPolicy
	token, ok := s.wish(w, r, &in)
	if !ok {
		return
	}
	if in.Pool == "" {
		refuse(w, http.StatusBadRequest, errors.New(`which pool? write {"pool": "default", "policy": "…"}`))
		return
	}
	err := s.agent.SetPolicy(r.Context(), token, in.Pool, in.Policy)
	if err != nil && cluster.Classify(err) == cluster.Away && !errors.Is(err, agent.ErrFollower) {
		// Not an error of Nomad's API: the policy itself.
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.done(w, err)
}

// Which is the body of PUT /v1/pause and /v1/resume; no ID is all jobs.
type Which struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
}

func (s *Server) pausing(do func(context.Context, string, planner.JobKey) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in Which
		token, ok := s.wish(w, r, &in)
		if !ok {
			return
		}
		key := planner.JobKey{Namespace: in.Namespace, ID: in.ID}
		if key.ID == "" {
			key = planner.JobKey{}
		} else if key.Namespace == "" {
			key.Namespace = "default"
		}
		s.done(w, do(r.Context(), token, key))
	}
}

func (s *Server) reloading(w http.ResponseWriter, r *http.Request) {
	token, ok := s.wish(w, r, nil)
	if !ok {
		return
	}
	if token != "" {
		if err := s.agent.May(r.Context(), token); err != nil && !errors.Is(err, agent.ErrFollower) {
			fail(w, err)
			return
		}
	}
	if err := s.reload(); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, struct{}{})
}

// wish reads the token and the body of a request that changes something.
func (s *Server) wish(w http.ResponseWriter, r *http.Request, into any) (token string, ok bool) {
	// A page of another site must not be able to write with a form.
	if r.Header.Get("Origin") != "" && !sameOrigin(r) {
		refuse(w, http.StatusForbidden, errors.New("requests of other sites are refused"))
		return "", false
	}
	token = r.Header.Get("X-Nomad-Token")
	if token == "" && !s.open() {
		refuse(w, http.StatusUnauthorized, errors.New("present a Nomad token that may write the variable kolo/control (header X-Nomad-Token, or NOMAD_TOKEN for the command line)"))
		return "", false
	}
	if into != nil {
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("the body: %w", err))
			return "", false
		}
	}
	return token, true
}

func sameOrigin(r *http.Request) bool {
	_, host, _ := strings.Cut(r.Header.Get("Origin"), "://")
	return host == r.Host
}

// open says whether callers without a token may write.
func (s *Server) open() bool {
	c := s.agent.Config().HTTP
	if c.Open != nil {
		return *c.Open
	}
	return c.Loopback()
}

func (s *Server) done(w http.ResponseWriter, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, struct{}{})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.agent.Health(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, map[string]any{"healthy": true, "leading": s.agent.Status().Leading})
}

// events sends what happens as server-sent events, and a comment now and then
// so that a dead connection is noticed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	events, stop := s.agent.Watch()
	defer stop()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	send := func(text string) bool {
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return flush.Flush() == nil
	}
	if !send(": kolo\n\n") {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if !send(": still here\n\n") {
				return
			}
		case e := <-events:
			data, err := json.Marshal(e)
			if err != nil || !send(fmt.Sprintf("event: %s\ndata: %s\n\n", e.Type, data)) {
				return
			}
		}
	}
}
