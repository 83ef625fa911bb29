// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api/socket"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// connection describes the Unix socket connection of a request.
type connection struct {
	peer socket.Peer
	err  error // why the peer may not use the socket
}

type connectionKey struct{}

// admitting returns a function that records the peer of each Unix socket connection.
func admitting(g socket.Gate) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		if b, ok := c.(*counted); ok {
			c = b.Conn
		}
		peer, err := socket.PeerOf(c)
		if err == nil {
			err = g.Admit(peer)
		}
		return context.WithValue(ctx, connectionKey{}, connection{peer, err})
	}
}

// local returns the connection of a request that came over the Unix socket.
func local(r *http.Request) (connection, bool) {
	c, ok := r.Context().Value(connectionKey{}).(connection)
	return c, ok
}

// gate refuses requests before they are processed: over the network, requests from
// pages of other sites; over the Unix socket, requests of other users.
func (s *Server) gate(r *http.Request) error {
	if c, ok := local(r); ok {
		if c.err != nil {
			return c.err
		}
		return direct(r)
	}
	c := &s.controller.Config().HTTP
	// After a page is loaded, its site can make its own name resolve to this machine.
	// The page could then read our answers as same-origin (DNS rebinding).
	if !plain(r) && !s.ours(r.Host, c) {
		return fmt.Errorf("requests to %q are refused: call the autoscaler by an IP address, localhost, or the name of its machine, or list the name in http { hosts }", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(r) {
		return fmt.Errorf("requests of other sites are refused; this one is of %q", origin)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
		return nil
	default:
		if link(r) {
			return nil
		}
		return fmt.Errorf("requests of other sites are refused; the browser calls this one %s", site)
	}
}

// plain reports whether a request is an HTTP/1.0 request, which need not name a
// host. Browsers send none.
func plain(r *http.Request) bool {
	return r.Host == "" && !r.ProtoAtLeast(1, 1) && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}

// link reports whether a request follows a link to the page, which contains no data
// itself.
func link(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// direct refuses requests that a proxy forwards to the Unix socket: everyone who
// reaches the proxy would act as its user.
func direct(r *http.Request) error {
	for h := range r.Header {
		if slices.Contains([]string{"Origin", "Sec-Fetch-Site", "Forwarded", "Via", "X-Real-Ip"}, h) || strings.HasPrefix(h, "X-Forwarded-") {
			return fmt.Errorf("requests with the header %s are refused on the Unix socket: a proxy would lend its user's rights to everyone; have it call http { bind, port }", h)
		}
	}
	return nil
}

// ours reports whether the request names a host as ours, by an address or by a name
// that no one else can make resolve to this machine.
func (s *Server) ours(host string, c *config.HTTP) bool {
	host = strings.TrimSuffix(strings.ToLower((&url.URL{Host: host}).Hostname()), ".")
	if host == "" {
		return false
	}
	// An address with a zone is valid only on this machine.
	if _, err := netip.ParseAddr(host); host == "localhost" || err == nil || strings.EqualFold(host, s.machine) {
		return true
	}
	for _, h := range c.Hosts {
		if host == h || strings.HasPrefix(h, ".") && strings.HasSuffix(host, h) {
			return true
		}
	}
	u, err := url.Parse(c.Advertise)
	return err == nil && strings.EqualFold(host, u.Hostname())
}

func sameOrigin(r *http.Request) bool {
	_, host, _ := strings.Cut(r.Header.Get("Origin"), "://")
	return host == r.Host
}

// address returns the address that a request came from, without the port.
func address(r *http.Request) string {
	if _, ok := local(r); ok {
		return "unix"
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

var errNoToken = errors.New("present a Nomad token (header X-Nomad-Token, or NOMAD_TOKEN for kolo)")
