// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// Headers of a forwarded request. They are used only to forward a request at most
// once, whichever autoscaler the two believe to lead.
const (
	forwardedHeader    = "Kolo-Forwarded-By"  // name of the autoscaler
	forwardedForHeader = "Kolo-Forwarded-For" // address of its caller
)

const forwardTimeout = 15 * time.Second

// via returns who forwarded a request, as the forwarding autoscaler reports it.
func via(r *http.Request) string {
	by := r.Header.Get(forwardedHeader)
	if by == "" {
		return ""
	}
	return by + " for " + r.Header.Get(forwardedForHeader)
}

// byLeader makes the leader carry out a command: this autoscaler, or another one with
// the caller's token. Commands that use the autoscaler's own token are carried out
// here. The leader learns of them from Nomad, and the token is not sent to it.
func (s *Server) byLeader(do commandFunc) commandFunc {
	return func(w http.ResponseWriter, r *http.Request, c caller, e *audit.Entry) error {
		if c.token == "" || s.controller.Leads() {
			return do(w, r, c, e)
		}
		if by := r.Header.Get(forwardedHeader); by != "" {
			return problem(http.StatusServiceUnavailable, "%s passed this on to %s, which does not lead now; try again in a moment", by, s.controller.Config().Name)
		}
		ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
		defer cancel()
		who, err := s.leader(ctx)
		if err != nil {
			return err
		}
		e.Reason = "passed on to " + who.Name
		return s.forward(w, r.WithContext(ctx), c, who)
	}
}

// leader returns the leading autoscaler, or an error if no other autoscaler leads
// or can be reached.
func (s *Server) leader(ctx context.Context) (leader.Holder, error) {
	c := s.controller.Config().Leader
	who, itself, err := s.controller.Leader(ctx)
	switch {
	case err != nil:
		return who, problem(http.StatusBadGateway, "this autoscaler does not lead, and it is unknown who does: %w", err)
	case itself:
		return who, problem(http.StatusServiceUnavailable, "this autoscaler is about to lead, or has just stopped leading; try again in a moment")
	case who.Name == "":
		return who, problem(http.StatusServiceUnavailable, "no autoscaler leads now: no one holds the lock of the variable %s; an autoscaler that reaches Nomad takes it within %s", c.Path, c.TTL)
	case who.Address == "":
		return who, problem(http.StatusServiceUnavailable, "%s leads, and does not report the address of its API; send the request to it", who.Name)
	}
	return who, nil
}

// forward sends a request to the leader and passes on its answer.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, c caller, who leader.Holder) error {
	conf := s.controller.Config()
	if conf.HTTP.TLS.Enabled() && !strings.HasPrefix(who.Address, "https://") {
		return problem(http.StatusBadGateway, "the leader %s is at %s, where a token would cross the network in the clear, and this autoscaler's configuration asks for TLS: write http { tls } there, too", who.Name, who.Address)
	}
	if (who.Machine == "" || who.Machine != s.machine) && toItself(who.Address) {
		return problem(http.StatusBadGateway, "the leader %s runs on %s, and advertises %s, which is this machine, %s: the token is not passed on; set http { advertise } there to an address that other autoscalers reach",
			who.Name, cmp.Or(who.Machine, "a machine that it does not name"), who.Address, s.machine)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return problem(http.StatusBadRequest, "the body: %w", err)
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, who.Address+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return problem(http.StatusBadGateway, "the address of the leader %s: %w", who.Name, err)
	}
	req.Header.Set("X-Nomad-Token", c.token)
	if t := r.Header.Get("Content-Type"); t != "" {
		req.Header.Set("Content-Type", t)
	}
	req.Header.Set(forwardedHeader, conf.Name)
	req.Header.Set(forwardedForHeader, address(r))
	resp, err := forwarder(&conf.HTTP.TLS).Do(req)
	if err != nil {
		return problem(http.StatusBadGateway, "the leader %s cannot be reached at %s: %w; if it has ended, another takes over within %s, and else set http { advertise } there, and with TLS http { tls { ca_file } } here",
			who.Name, who.Address, err, 2*conf.Leader.TTL+conf.Leader.Delay+conf.Leader.TTL/3)
	}
	defer resp.Body.Close()
	s.log.Debug("passed a request on to the leader", "path", r.URL.Path, "leader", who.Name, "address", who.Address, "status", resp.StatusCode)
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, bodyLimit)) // one of the two may have disconnected
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", who.Name, resp.Status)
	}
	return nil
}

// toItself reports whether a URL leads every machine to itself, where any of its
// users may listen.
func toItself(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false // no request is sent to it either
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.Unmap().IsUnspecified())
}

// forwarder returns a client for one request. It follows no redirects, because the
// request carries the caller's token, and uses no proxy from the environment.
func forwarder(c *config.TLS) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{TLSClientConfig: calling(c), DisableKeepAlives: true, TLSHandshakeTimeout: forwardTimeout},
	}
}
