// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/socket"
)

// defaultAddress is asked where no address is given and there is no socket.
const defaultAddress = "http://127.0.0.1:8648"

// reach is how an agent is reached, by flags and the environment. The names are
// those of Nomad's command line.
type reach struct {
	address string // "" is the Unix socket, or else defaultAddress
	places  socket.Places
	tls     api.TLSConfig
}

func (r *reach) flags(f *flag.FlagSet) error {
	r.places = socket.Here()
	skip := os.Getenv("KOLO_SKIP_VERIFY")
	insecure, err := strconv.ParseBool(skip)
	if skip != "" && err != nil {
		return badFlag("KOLO_SKIP_VERIFY=%s: write true or false", skip)
	}
	f.StringVar(&r.address, "address", os.Getenv("KOLO_ADDR"), "")
	f.StringVar(&r.tls.CACert, "ca-cert", os.Getenv("KOLO_CACERT"), "")
	f.StringVar(&r.tls.CAPath, "ca-path", os.Getenv("KOLO_CAPATH"), "")
	f.StringVar(&r.tls.ClientCert, "client-cert", os.Getenv("KOLO_CLIENT_CERT"), "")
	f.StringVar(&r.tls.ClientKey, "client-key", os.Getenv("KOLO_CLIENT_KEY"), "")
	f.StringVar(&r.tls.TLSServerName, "tls-server-name", os.Getenv("KOLO_TLS_SERVER_NAME"), "")
	f.BoolVar(&r.tls.Insecure, "tls-skip-verify", insecure, "")
	return nil
}

// target is an agent's address with what speaks to it.
type target struct {
	base   string // of URLs
	name   string // for messages
	client *http.Client
}

// target finds the agent.
func (r *reach) target(ctx context.Context) (*target, error) {
	address := r.address
	if address == "" {
		path, err := r.places.Find(ctx)
		if err != nil {
			return nil, err
		}
		if path != "" {
			return overSocket(path, r.places.Dial), nil
		}
		address = defaultAddress
	}
	u, err := config.URL(address, "http", "https", "unix")
	if err != nil {
		return nil, badFlag("-address or KOLO_ADDR: %v", err)
	}
	if u.Scheme == "unix" {
		return overSocket(u.Path, dialUnix), nil // the user chose it
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	client := &http.Client{Transport: transport, CheckRedirect: noRedirect}
	if err := api.ConfigureTLS(client, &r.tls); err != nil {
		return nil, badFlag("TLS to the agent (-ca-cert, -ca-path, -client-cert, -client-key): %v", err)
	}
	return &target{base: u.Scheme + "://" + u.Host, name: u.Scheme + "://" + u.Host, client: client}, nil
}

// noRedirect follows none: a request may carry a token.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

func overSocket(path string, dial func(ctx context.Context, path string) (net.Conn, error)) *target {
	return &target{base: "http://kolo", name: "unix://" + path, client: &http.Client{
		CheckRedirect: noRedirect,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, path)
		}},
	}}
}

// explain adds to an error of a request what to do about it.
func (t *target) explain(err error) error {
	var (
		host   x509.HostnameError
		verify *tls.CertificateVerificationError
		op     *net.OpError
		urlErr *url.Error
	)
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the socket %s is another user's: run kolo as that user or root, or use -address and NOMAD_TOKEN: %w", t.name, err)
	case errors.As(err, &host):
		return fmt.Errorf("the agent's certificate is for another name than %s: use one of its names in -address, or give it with -tls-server-name (KOLO_TLS_SERVER_NAME): %w", t.name, err)
	case errors.As(err, &verify):
		return fmt.Errorf("the agent's certificate is not trusted: give the authority that signed it with -ca-cert (KOLO_CACERT): %w", err)
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("the agent takes no caller without a certificate of its authority: give one with -client-cert and -client-key (KOLO_CLIENT_CERT, KOLO_CLIENT_KEY): %w", err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not speak TLS: write http:// in -address or KOLO_ADDR: %w", t.name, err)
	case errors.As(err, &urlErr):
		err = urlErr.Err // the URL is said already
	}
	return fmt.Errorf("the agent does not answer; is it running at %s (-address, KOLO_ADDR)? %w", t.name, err)
}
