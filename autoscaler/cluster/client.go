// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// Client calls Nomad's API, and counts the requests and the failed ones.
type Client struct {
	*api.Client
	Namespace string // for lists
	timeout   time.Duration

	calls, failures atomic.Uint64
}

// NewClient returns a client for the configuration. Settings that are missing come
// from the NOMAD_* environment variables. An address that begins with unix:// is
// the socket of Nomad's Task API.
func NewClient(c config.Nomad) (*Client, error) {
	conf := api.DefaultConfig()
	for to, from := range map[*string]string{
		&conf.Address: c.Address, &conf.Region: c.Region, &conf.SecretID: c.Token,
		&conf.TLSConfig.CACert: c.CACert, &conf.TLSConfig.CAPath: c.CAPath, &conf.TLSConfig.ClientCert: c.Cert,
		&conf.TLSConfig.ClientKey: c.Key, &conf.TLSConfig.TLSServerName: c.TLSServerName,
	} {
		if from != "" {
			*to = from
		}
	}
	conf.TLSConfig.Insecure = conf.TLSConfig.Insecure || c.SkipVerify
	// The namespace in the environment is the one that this process runs in. The
	// namespaces whose jobs are scaled come from the configuration.
	conf.Namespace = ""

	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32
	address, err := config.URL(conf.Address, "http", "https", "unix")
	if err != nil {
		return nil, fmt.Errorf("the address of Nomad (NOMAD_ADDR, nomad { address } or -nomad-address): %w", err)
	}
	conf.Address = address.String()
	if address.Scheme == "unix" {
		path := address.EscapedPath()
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		conf.Address = "http://127.0.0.1"
	}
	hc := &http.Client{Transport: transport}
	transport.TLSClientConfig = tlsDefaults()
	if err := api.ConfigureTLS(hc, conf.TLSConfig); err != nil {
		return nil, fmt.Errorf("TLS to Nomad: %w", err)
	}
	out := &Client{Namespace: c.Namespace, timeout: c.Timeout}
	hc.Transport = counting{out, transport}
	conf.HttpClient = hc
	if out.Client, err = api.NewClient(conf); err != nil {
		return nil, fmt.Errorf("client for Nomad: %w", err)
	}
	return out, nil
}

// Calls returns how many requests were sent, and how many of them failed or
// received an error.
func (c *Client) Calls() (all, failed uint64) { return c.calls.Load(), c.failures.Load() }

// list returns the options for a list over all configured namespaces.
func (c *Client) list(ctx context.Context, index uint64, wait time.Duration, params map[string]string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: c.Namespace, WaitIndex: index, WaitTime: wait, Params: params}).WithContext(ctx)
}

// bounded returns a context for one request that does not block in Nomad.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

type counting struct {
	c    *Client
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t counting) RoundTrip(r *http.Request) (*http.Response, error) {
	t.c.calls.Add(1)
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.StatusCode >= http.StatusBadRequest && !missing(r, resp) {
		t.c.failures.Add(1)
	}
	return resp, explainTLS(err)
}

// missing reports whether a response is a negative answer that is no failure.
func missing(r *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound ||
		resp.StatusCode == http.StatusConflict && strings.HasPrefix(r.URL.Path, "/v1/var/")
}
