// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/shoenig/test/must"
)

func agent(t *testing.T, h http.HandlerFunc) *Client {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return NewClient(s.URL)
}

func TestClient_Do(t *testing.T) {
	c := agent(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"pool": "`+r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Nomad-Token")+`", "policy": "`+string(body[9:12])+`"}`)
	})
	c.Token = "secret"
	var out SetPolicy
	raw, err := c.Do(t.Context(), http.MethodPut, "/v1/policy", url.Values{"a": {"b"}}, SetPolicy{Pool: "gpu"}, &out)
	must.NoError(t, err)
	must.Eq(t, SetPolicy{Pool: "PUT /v1/policy?a=b secret", Policy: "gpu"}, out)
	must.StrHasPrefix(t, `{"pool"`, string(raw))
}

func TestClient_Refusals(t *testing.T) {
	for name, tc := range map[string]struct {
		code   int
		answer string
		want   string
	}{
		"a problem":  {http.StatusForbidden, `{"error": "the token is unknown"}`, "the token is unknown"},
		"no problem": {http.StatusBadGateway, "a proxy", "the autoscaler answered 502 Bad Gateway: a proxy"},
		"a redirect": {http.StatusFound, "", "the autoscaler answered 302 Found"},
		"no JSON":    {http.StatusOK, "a page", "the autoscaler's answer: invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			c := agent(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(tc.code)
				_, _ = io.WriteString(w, tc.answer)
			})
			_, err := c.Status(t.Context())
			must.ErrorContains(t, err, tc.want)
		})
	}
	_, err := NewClient("http://127.0.0.1:1").Status(t.Context())
	var unanswered *url.Error
	must.True(t, errors.As(err, &unanswered))
}

func TestClient_Events(t *testing.T) {
	c := agent(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, ": kolo\n\nevent: pause\ndata: {\"type\": \"pause\"}\n\n: still here\n\nevent: leader\ndata: {\"type\": \"leader\"}\n\n")
	})
	var types []string
	must.NoError(t, c.Events(t.Context(), func() { types = append(types, "ready") }, func(e Event) { types = append(types, e.Type) }))
	must.Eq(t, []string{"ready", "pause", "leader"}, types)
}
