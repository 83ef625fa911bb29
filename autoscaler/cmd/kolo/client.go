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

	nomad "github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/socket"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// defaultAddress is used if no address is given and there is no socket.
const defaultAddress = "http://127.0.0.1:8648"

// clientFlags specifies how to reach an autoscaler, by flags and the environment. The
// names are those of Nomad's command line.
type clientFlags struct {
	address string // "" means the Unix socket, or else defaultAddress
	sockets socket.Places
	tls     nomad.TLSConfig
}

// register adds the flags, with defaults from the environment.
func (r *clientFlags) register(f *flag.FlagSet) error {
	r.sockets = socket.Here()
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

// client calls an autoscaler. Its name is the address for messages.
type client struct {
	*api.Client
	name string
}

// client finds the autoscaler.
func (r *clientFlags) client(ctx context.Context) (*client, error) {
	address := r.address
	if address == "" {
		path, err := r.sockets.Find(ctx)
		if err != nil {
			return nil, err
		}
		if path != "" {
			return socketClient(path, r.sockets.Dial), nil
		}
		address = defaultAddress
	}
	u, err := config.URL(address, "http", "https", "unix")
	if err != nil {
		return nil, badFlag("-address or KOLO_ADDR: %v", err)
	}
	if u.Scheme == "unix" {
		return socketClient(u.Path, dialUnix), nil // the user chose it
	}
	name := u.Scheme + "://" + u.Host
	c := api.NewClient(name)
	if err := nomad.ConfigureTLS(c.HTTP, &r.tls); err != nil {
		return nil, badFlag("TLS to the autoscaler (-ca-cert, -ca-path, -client-cert, -client-key): %v", err)
	}
	return &client{c, name}, nil
}

func socketClient(path string, dial func(ctx context.Context, path string) (net.Conn, error)) *client {
	return &client{api.NewSocketClient(func(ctx context.Context) (net.Conn, error) { return dial(ctx, path) }), "unix://" + path}
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// explain adds the likely remedy to the error of a request.
func (c *client) explain(err error) error {
	var (
		host   x509.HostnameError
		verify *tls.CertificateVerificationError
		op     *net.OpError
		urlErr *url.Error
	)
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the socket %s is another user's: run kolo as that user or root, or use -address and NOMAD_TOKEN: %w", c.name, err)
	case errors.As(err, &host):
		return fmt.Errorf("the autoscaler's certificate is for another name than %s: use one of its names in -address, or give it with -tls-server-name (KOLO_TLS_SERVER_NAME): %w", c.name, err)
	case errors.As(err, &verify):
		return fmt.Errorf("the autoscaler's certificate is not trusted: give the authority that signed it with -ca-cert (KOLO_CACERT): %w", err)
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("the autoscaler accepts only callers with a certificate from its authority: give one with -client-cert and -client-key (KOLO_CLIENT_CERT, KOLO_CLIENT_KEY): %w", err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not speak TLS: write http:// in -address or KOLO_ADDR: %w", c.name, err)
	case errors.As(err, &urlErr):
		err = urlErr.Err // the message already contains the URL
	}
	return fmt.Errorf("the autoscaler does not answer; is it running at %s (-address, KOLO_ADDR)? %w", c.name, err)
}
