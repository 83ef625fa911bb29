// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// everyRoute are requests that reach every handler.
func everyRoute(t *testing.T, s *Server) map[string]*http.Request {
	out := map[string]*http.Request{}
	for pattern := range s.routes() {
		method, path, ok := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
		must.True(t, ok)
		out[pattern] = httptest.NewRequest(method, "http://127.0.0.1:8648"+path, strings.NewReader("{}")).WithContext(t.Context())
	}
	return out
}

// TestGate_ANameOfAnothersIsRefusedEverywhere covers DNS rebinding: once loaded, a page
// makes its own name point to this machine. For the browser, the page and the autoscaler
// then have the same origin.
func TestGate_ANameOfAnothersIsRefusedEverywhere(t *testing.T) {
	w := start(t, func(c *config.Config) { c.HTTP.Debug = true })
	for pattern, r := range everyRoute(t, w.api) {
		r.Host = "evil.example:8648"
		r.Header.Set("X-Nomad-Token", "anything") // any page can send that to its own origin
		out := httptest.NewRecorder()
		w.api.ServeHTTP(out, r)
		must.Eq(t, http.StatusForbidden, out.Code, must.Sprint(pattern))
		must.StrContains(t, out.Body.String(), "list the name in http { hosts }")
		must.StrNotContains(t, out.Body.String(), "train")
	}
	must.False(t, w.agent.Status().Paused)
}

// TestGate_OtherSitesAreRefusedEverywhere covers requests that a page of another origin
// makes a browser send.
func TestGate_OtherSitesAreRefusedEverywhere(t *testing.T) {
	w := start(t, nil)
	for name, headers := range map[string][]string{
		"a script":        {"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
		"an image":        {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
		"a frame":         {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		"another port":    {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"},
		"an old browser":  {"Origin", "http://127.0.0.1:9999"},
		"a sandbox":       {"Origin", "null"},
		"what is to come": {"Sec-Fetch-Site", "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			for pattern, r := range everyRoute(t, w.api) {
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
				out := httptest.NewRecorder()
				w.api.ServeHTTP(out, r)
				must.Eq(t, http.StatusForbidden, out.Code, must.Sprint(pattern))
				must.StrContains(t, out.Body.String(), "requests of other sites are refused")
			}
		})
	}
	must.False(t, w.agent.Status().Paused)
}

func TestGate_Hosts(t *testing.T) {
	for name, tc := range map[string]struct {
		host    string
		hosts   []string
		headers []string
		path    string
		proto   string
		want    string
	}{
		"localhost":               {host: "localhost:8648"},
		"an address":              {host: "10.0.0.1:8648"},
		"an address, 6":           {host: "[::1]:8648"},
		"an address with a zone":  {host: "[fe80::1%25eth0]:8648"},
		"a name to its end":       {host: "localhost.:8648"},
		"the machine to its end":  {host: "worker-7."},
		"HTTP/1.0":                {host: "", proto: "HTTP/1.0"},
		"HTTP/1.0 of a page":      {host: "", proto: "HTTP/1.0", headers: []string{"Origin", "null"}, want: "are refused"},
		"the machine":             {host: "Worker-7:8648"},
		"advertised":              {host: "Kolo.example"},
		"in the list":             {host: "prometheus-sees.example:80", hosts: []string{"prometheus-sees.example"}},
		"below a name":            {host: "kolo.service.consul:8648", hosts: []string{".service.consul"}},
		"the end of another name": {host: "evilservice.consul", hosts: []string{".service.consul"}, want: "are refused"},
		"another name":            {host: "evil.example", want: `requests to "evil.example" are refused`},
		"an address in a name":    {host: "127.0.0.1.evil.example", want: "are refused"},
		"localhost in a name":     {host: "localhost.evil.example", want: "are refused"},
		"no name":                 {host: "", want: "are refused"},
		"our own page":            {host: "localhost:8648", headers: []string{"Origin", "http://localhost:8648", "Sec-Fetch-Site", "same-origin"}},
		"typed":                   {host: "localhost:8648", headers: []string{"Sec-Fetch-Site", "none"}},
		"a link to the page":      {host: "localhost:8648", path: "/", headers: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		"a link to the API":       {host: "localhost:8648", headers: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, want: "calls this one cross-site"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{controller: &fake{http: config.HTTP{Hosts: tc.hosts, Advertise: "https://kolo.example:8648"}}, machine: "worker-7"}
			path := tc.path
			if path == "" {
				path = "/v1/status"
			}
			r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
			r.Host = tc.host
			if tc.proto != "" {
				r.Proto, r.ProtoMinor = tc.proto, 0
			}
			for i := 0; i < len(tc.headers); i += 2 {
				r.Header.Set(tc.headers[i], tc.headers[i+1])
			}
			err := s.gate(r)
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
		})
	}
}

// overUnix is a request as if it had come over the Unix socket.
func overUnix(r *http.Request, c connection) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), connectionKey{}, c))
}

func TestGate_UnixSocket(t *testing.T) {
	s := &Server{controller: &fake{}}
	r := httptest.NewRequest(http.MethodGet, "http://kolo/v1/status", nil)
	must.NoError(t, s.gate(overUnix(r, connection{})))
	must.ErrorContains(t, s.gate(overUnix(r, connection{err: errors.New("the caller is uid 65534")})), "uid 65534")
	for _, h := range []string{"Origin", "X-Forwarded-For", "Forwarded", "Via", "Sec-Fetch-Site", "X-Real-IP", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		r := httptest.NewRequest(http.MethodGet, "http://kolo/v1/status", nil)
		r.Header.Set(h, "10.0.0.9")
		must.ErrorContains(t, s.gate(overUnix(r, connection{})), "a proxy would lend its user's rights")
	}
}

func TestServer_HeadersOfThePage(t *testing.T) {
	w := start(t, nil)
	resp, err := http.Get(w.url)
	must.NoError(t, err)
	defer resp.Body.Close()
	policy := resp.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"} {
		must.StrContains(t, policy, want)
	}
	must.StrNotContains(t, policy, "unsafe")
	must.Eq(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	must.Eq(t, "no-referrer", resp.Header.Get("Referrer-Policy"))
	must.Eq(t, "DENY", resp.Header.Get("X-Frame-Options"))
}

// A pause can be ended even if its job no longer exists.
func TestServer_ResumesAJobThatIsGone(t *testing.T) {
	s := &Server{controller: &fake{}, tokens: &fake{}}
	resume := func(id string) error {
		return s.setPaused(false)(httptest.NewRecorder(), put(t, "/v1/resume", `{"namespace":"red","id":"`+id+`"}`), caller{}, &audit.Entry{})
	}
	must.NoError(t, resume("gone"))
	must.ErrorContains(t, resume("typo"), "kolo does not scale a job red/typo")
}
