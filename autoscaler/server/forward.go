// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// forwardedHeader names the agent that passed a request on. A request goes from
// one agent to the next once, wherever the two believe the leader to be.
const forwardedHeader = "Kolo-Forwarded-By"

// Bounds of a request that is passed on.
const (
	forwardTimeout = 15 * time.Second
	bodyLimit      = 1 << 16
)

// forwarder follows no redirect: the request carries the caller's token.
var forwarder = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// byLeader lets the leader answer: this agent, or the one that leads, with the
// caller's token and nobody else's.
func (s *Server) byLeader(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.agent.Leads() {
			next(w, r)
			return
		}
		if by := r.Header.Get(forwardedHeader); by != "" {
			refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s passed this on to %s, which does not lead now; try again in a moment", by, s.agent.Config().Name))
			return
		}
		if _, ok := s.admit(w, r); ok {
			s.forward(w, r)
		}
	}
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	c := s.agent.Config().Leader
	who, itself, err := s.agent.Leader(ctx)
	switch {
	case err != nil:
		refuse(w, http.StatusBadGateway, fmt.Errorf("this agent does not lead, and cannot tell who does: %w", err))
		return
	case itself:
		refuse(w, http.StatusServiceUnavailable, errors.New("this agent was the last to lead, and is not ready to or no more; try again in a moment"))
		return
	case who.Name == "":
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("no agent leads now: nobody holds the lock of the variable %s; one takes it within %s where Nomad can be reached",
			c.Path, c.TTL))
		return
	case who.Address == "":
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%s leads, and did not say where its API is; ask it itself", who.Name))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("the body: %w", err))
		return
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, who.Address+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		refuse(w, http.StatusBadGateway, fmt.Errorf("the address of the leader %s: %w", who.Name, err))
		return
	}
	for _, h := range []string{"X-Nomad-Token", "Content-Type"} {
		if v := r.Header.Get(h); v != "" {
			req.Header.Set(h, v)
		}
	}
	req.Header.Set(forwardedHeader, s.agent.Config().Name)
	resp, err := forwarder.Do(req)
	if err != nil {
		refuse(w, http.StatusBadGateway, fmt.Errorf("the leader %s cannot be reached at %s: %w; if it has ended, another takes over within %s, and else set http { advertise } there",
			who.Name, who.Address, err, 2*c.TTL+c.Delay+c.TTL/3))
		return
	}
	defer resp.Body.Close()
	s.log.Debug("passed a request on to the leader", "path", r.URL.Path, "leader", who.Name, "address", who.Address, "status", resp.StatusCode)
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, bodyLimit)) // one of the two went away
}
