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

// connection is what is known of a request's connection if it came over the
// Unix socket.
type connection struct {
	peer socket.Peer
	err  error // why the peer may not use the socket
}

type connectionKey struct{}

// admitting notes who is at the other end of a connection of the Unix socket.
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

// gate refuses requests before anything looks at them: over the network those
// of other sites' pages, and over the Unix socket those of other users.
func (s *Server) gate(r *http.Request) error {
	if c, ok := local(r); ok {
		if c.err != nil {
			return c.err
		}
		return direct(r)
	}
	c := &s.controller.Config().HTTP
	// A page may have its own name point here once it is loaded, and reads
	// then as if it were ours.
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

// plain reports whether a request is one of HTTP/1.0, which need not name whom it is
// sent to. Browsers send none.
func plain(r *http.Request) bool {
	return r.Host == "" && !r.ProtoAtLeast(1, 1) && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}

// link reports whether a request follows a link to the page, which holds nothing.
func link(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// direct refuses what a proxy passes on to the Unix socket: its own user would
// answer for everyone who reaches the proxy.
func direct(r *http.Request) error {
	for h := range r.Header {
		if slices.Contains([]string{"Origin", "Sec-Fetch-Site", "Forwarded", "Via", "X-Real-Ip"}, h) || strings.HasPrefix(h, "X-Forwarded-") {
			return fmt.Errorf("requests with the header %s are refused on the Unix socket: a proxy would lend its user's rights to everyone; have it call http { bind, port }", h)
		}
	}
	return nil
}

// ours reports whether the host that a request was sent to is ours by a name that
// no one else can give to it.
func (s *Server) ours(host string, c *config.HTTP) bool {
	host = strings.TrimSuffix(strings.ToLower((&url.URL{Host: host}).Hostname()), ".")
	if host == "" {
		return false
	}
	// With a zone, an address is of this machine all the more.
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

// address is where a request came from, without the port.
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
