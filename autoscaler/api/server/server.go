// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/api/page"
	"github.com/kolo-nomad/kolo/autoscaler/api/socket"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// Controller is the part of the control loop that the API uses.
type Controller interface {
	Status() *api.Status
	Topology() ([]api.PoolTopology, error)
	Health() error
	Config() *config.Config
	Registry() *prometheus.Registry
	JobMetrics(sees func(identity.JobKey) bool) prometheus.Collector
	Propose(ctx context.Context, line string, pools map[string]config.Pool) ([]api.Proposal, error)
	Pools() (configured, set map[string]string)
	ExternalPolicies() []string
	History(context.Context, identity.JobKey) ([]api.Change, error)
	JobDetail(identity.JobKey) *api.JobDetail
	Series(identity.JobKey) *api.Series
	Timeline(since time.Time) *api.Timeline
	Nodes() ([]api.Node, error)
	Usage(ctx context.Context, first usage.Day) ([]usage.Row, error)
	Subscribe() (<-chan api.Event, func())
	SetPolicy(ctx context.Context, token, pool, line string) error
	Paused(identity.JobKey) bool
	SetPaused(ctx context.Context, token string, key identity.JobKey, paused bool) error
	MayCommand(ctx context.Context, token string) error
	Leads() bool
	Leader(context.Context) (who leader.Holder, itself bool, err error)
}

// Tokens answers questions about the tokens of callers, by asking Nomad.
type Tokens interface {
	Identify(ctx context.Context, token string) (string, error)
	MayRead(ctx context.Context, token string, one identity.JobKey) (bool, error)
}

// Server answers HTTP requests.
type Server struct {
	controller Controller
	tokens     Tokens
	reload     func() error
	log        hclog.Logger
	audit      *audit.Log
	mux        *http.ServeMux
	machine    string // its host name
	places     socket.Places
	socket     string // path of the Unix socket, "" is none
	network    *quota
	own        *quota // of the Unix socket
	limits     timeouts
}

// New returns a server. reload must read the configuration again.
func New(c Controller, t Tokens, reload func() error, log hclog.Logger) *Server {
	s := &Server{
		controller: c, tokens: t, reload: reload, log: log, audit: audit.New(log, "autoscaler "+c.Config().Name), mux: http.NewServeMux(),
		network: newQuota(streamsByAddress), own: newQuota(mostStreams), limits: defaultTimeouts(), places: socket.Here(),
	}
	s.machine, _ = os.Hostname() // if this fails, the machine has no name
	for pattern, h := range s.routes() {
		s.mux.HandleFunc(pattern, h)
	}
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/cmdline": pprof.Cmdline, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		s.mux.HandleFunc(pattern, s.debugging(h))
	}
	return s
}

func (s *Server) routes() map[string]http.HandlerFunc {
	view := page.Handler().ServeHTTP
	return map[string]http.HandlerFunc{
		"GET /{$}":            view,
		"GET /page/{file...}": view,
		"GET /v1/status":      s.reads(s.limited(answers(s.status))),
		"GET /v1/job":         s.reads(s.limited(answers(s.job))),
		"GET /v1/plan":        s.reads(s.limited(answers(s.plan))),
		"POST /v1/plan":       s.reads(s.limited(answers(s.planChanged))),
		"GET /v1/policy":      s.reads(answers(s.policies)),
		"GET /v1/topology":    s.reads(s.limited(answers(s.topology))),
		"GET /v1/nodes":       s.reads(s.limited(answers(s.nodes))),
		"GET /v1/series":      s.reads(s.limited(answers(s.series))),
		"GET /v1/timeline":    s.reads(s.limited(answers(s.timeline))),
		"GET /v1/usage":       s.reads(s.limited(answers(s.usage))),
		"GET /v1/events":      s.reads(s.events),
		"GET /v1/metrics":     s.metrics,
		"GET /v1/health":      s.health,
		"PUT /v1/policy":      s.command(audit.SetPolicy, s.byLeader(s.setPolicy)),
		"PUT /v1/pause":       s.command(audit.Pause, s.byLeader(s.setPaused(true))),
		"PUT /v1/resume":      s.command(audit.Resume, s.byLeader(s.setPaused(false))),
		"PUT /v1/reload":      s.command(audit.Reload, s.reloading),
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page.Protect(w.Header())
	if err := s.gate(r); err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	s.mux.ServeHTTP(w, r)
}
