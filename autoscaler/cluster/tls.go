// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// tlsDefaults returns the TLS settings that the configuration is applied to.
func tlsDefaults() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// explainTLS adds to a request error caused by TLS which setting to change.
func explainTLS(err error) error {
	var (
		name   x509.HostnameError
		verify *tls.CertificateVerificationError
		op     *net.OpError
		record tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("%w; Nomad's certificate is for another name: set nomad { tls_server_name } or NOMAD_TLS_SERVER_NAME to one of its names, such as server.global.nomad", err)
	case errors.As(err, &verify):
		return fmt.Errorf("%w; set nomad { ca_cert } or NOMAD_CACERT to the certificate of the authority that signed Nomad's", err)
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("%w; Nomad does not accept the client's certificate: set nomad { client_cert, client_key } or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY to one that its authority signed", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w; Nomad does not speak TLS there: write http:// in nomad { address } or NOMAD_ADDR", err)
	}
	return err
}
