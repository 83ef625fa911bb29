// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// NewClient returns a client with connections of its own. Nomad's default client would
// ignore the request's context while it connects to a Unix socket.
func NewClient(address string) (*api.Client, error) {
	if address == "" {
		return nil, errors.New("no Nomad address: expected the Task API socket (unix://…/secrets/api.sock) or an HTTP address")
	}
	cfg := api.DefaultConfig() // reads NOMAD_CACERT and related variables
	cfg.Address, cfg.SecretID = address, ""
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		t := &http.Transport{
			MaxIdleConns: 4, IdleConnTimeout: time.Minute,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			},
		}
		cfg.Address, cfg.HttpClient, cfg.TLSConfig = "http://127.0.0.1", &http.Client{Transport: t}, nil
	}
	client, err := api.NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("nomad address %q: %w", address, err)
	}
	return client, nil
}
