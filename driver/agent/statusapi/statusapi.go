// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package statusapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kolo-nomad/kolo/driver/agent/port"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// NewServer returns a server for the status. Everyone who can reach the port may ask, so
// the server's time-outs are short. Each answer is ready within seconds.
func NewServer(status func(context.Context) *wire.Status) *http.Server {
	return &http.Server{Handler: handler(status), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: port.IdleLimit, MaxHeaderBytes: port.MaxHeader}
}

// handler serves /v1/status, /v1/health and /metrics from a status.
func handler(status func(context.Context) *wire.Status) http.Handler {
	mux := http.NewServeMux()
	get := func(w http.ResponseWriter, r *http.Request) *wire.Status {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		s := status(ctx)
		if s == nil {
			http.Error(w, `{"error":"no leader is known yet"}`, http.StatusServiceUnavailable)
		}
		return s
	}
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		if s := get(w, r); s != nil {
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			_ = enc.Encode(s)
		}
	})
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, r *http.Request) {
		if get(w, r) != nil {
			_, _ = w.Write([]byte("ok\n"))
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if s := get(w, r); s != nil {
			reg := prometheus.NewRegistry()
			reg.MustRegister(collector{s})
			promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, r)
		}
	})
	return mux
}
