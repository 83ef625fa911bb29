// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kolo-nomad/kolo/autoscaler/agent"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/leader"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Agent is what the API needs of an agent.
type Agent interface {
	Status() *agent.Status
	Health() error
	Config() *config.Config
	Registry() *prometheus.Registry
	Propose(line string) ([]agent.Proposal, error)
	Pools() (configured, set map[string]string)
	Own() []string
	History(context.Context, planner.JobKey) ([]cluster.Change, error)
	Watch() (<-chan agent.Event, func())
	SetPolicy(ctx context.Context, token, pool, line string) error
	Pause(ctx context.Context, token string, key planner.JobKey) error
	Resume(ctx context.Context, token string, key planner.JobKey) error
	May(ctx context.Context, token string) error
	Leads() bool
	Leader(context.Context) (who leader.Holder, itself bool, err error)
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
		s.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		s.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		s.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
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
		"PUT /v1/policy": s.byLeader(s.setPolicy),
		"PUT /v1/pause":  s.byLeader(s.pause),
		"PUT /v1/resume": s.byLeader(s.resume),
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

func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a reader that went away
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
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%w any more; try again in a moment", err))
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
