// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// secure adds TLS to a listener if the configuration requires it. Each handshake
// uses the current certificate and authorities, so a reload changes them without
// interruption.
func (s *Server) secure(l net.Listener, c config.HTTP) net.Listener {
	if !c.TLS.Enabled() {
		return l
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return serving(&s.controller.Config().HTTP.TLS)
		},
	})
}

func serving(c *config.TLS) (*tls.Config, error) {
	if !c.Enabled() {
		return nil, errors.New("TLS was turned off in the configuration, which requires a restart")
	}
	out := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*c.Certificate}, NextProtos: []string{"http/1.1"},
		SessionTicketsDisabled: true, // verify the client at every connection
	}
	if c.VerifyClient {
		out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, c.Authorities
	}
	return out, nil
}

// calling returns the TLS configuration for calling another autoscaler. It includes
// this autoscaler's certificate, in case the other one verifies clients.
func calling(c *config.TLS) *tls.Config {
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Authorities}
	if c.Enabled() {
		out.Certificates = []tls.Certificate{*c.Certificate}
	}
	return out
}
