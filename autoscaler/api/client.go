// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Client sends requests to one autoscaler.
type Client struct {
	URL   string // of the API, without a path
	Token string // a Nomad token, "" for none
	HTTP  *http.Client
}

// NewClient returns a client for the autoscaler at url, such as http://127.0.0.1:8648.
// It follows no redirects, because a request may carry a token.
func NewClient(url string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	return &Client{URL: url, HTTP: &http.Client{Transport: transport, CheckRedirect: noRedirect}}
}

// NewSocketClient returns a client for the Unix socket that dial connects to.
func NewSocketClient(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{URL: "http://kolo", HTTP: &http.Client{
		CheckRedirect: noRedirect,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx)
		}},
	}}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Status reads /v1/status.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	if _, err := c.Do(ctx, http.MethodGet, "/v1/status", nil, nil, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Events reads /v1/events until ctx or the stream ends. It calls ready once the
// autoscaler has answered, then event for each event.
func (c *Client) Events(ctx context.Context, ready func(), event func(Event)) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/events", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	ready()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		var e Event
		if ok && json.Unmarshal(data, &e) == nil {
			event(e)
		}
	}
	return lines.Err()
}

// Do sends a request with in as its JSON body, or without a body if in is nil. It
// decodes the answer into out unless that is nil, and also returns the text of the
// answer. If no answer came, the error is a *url.Error. If the autoscaler refused, the
// error contains the text of its Problem.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) ([]byte, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			return nil, fmt.Errorf("the autoscaler's answer: %w", err)
		}
	}
	return raw, nil
}

// ErrNotServed is returned if the server at the address does not know the requested
// path.
var ErrNotServed = errors.New("is this the address of an autoscaler of the same version, and not of Nomad?")

// ErrNotFound is returned, with the autoscaler's words, if it does not know what the request
// names.
var ErrNotFound = errors.New("")

// send returns the autoscaler's answer, or an error if it is a refusal.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		req.Header.Set("X-Nomad-Token", c.Token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var p Problem
	if json.Unmarshal(raw, &p) == nil && p.Error != "" {
		if resp.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%w%s", ErrNotFound, p.Error)
		}
		return nil, errors.New(p.Error)
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("it has no %s: %w", req.URL.Path, ErrNotServed)
	}
	return nil, fmt.Errorf("the autoscaler answered %s: %s", resp.Status, raw)
}
