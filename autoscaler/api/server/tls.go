// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// secure makes a listener speak TLS where the configuration asks for it. Each
// handshake uses the certificate and the authorities in force, so that a reload
// changes them without a pause.
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
		SessionTicketsDisabled: true, // a client is verified each time
	}
	if c.VerifyClient {
		out.ClientAuth, out.ClientCAs = tls.RequireAndVerifyClientCert, c.Authorities
	}
	return out, nil
}

// calling is how an autoscaler calls another, with its own certificate for where
// that verifies clients.
func calling(c *config.TLS) *tls.Config {
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Authorities}
	if c.Enabled() {
		out.Certificates = []tls.Certificate{*c.Certificate}
	}
	return out
}
