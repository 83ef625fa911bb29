// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package statusapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// FuzzHandler sends any request to an agent's status port, while the status is one that a
// leader might send.
func FuzzHandler(f *testing.F) {
	f.Add("GET", "/v1/status", "example.test", `{"job":"train","size":2,"step_seconds":{"2":{"mean":0.5,"n":3}}}`)
	f.Add("GET", "/metrics", "", `{"job":"train","step":1e308,"resizes":[{"cause":"resize","gap_seconds":0.3},{"cause":"\ufffd","lost_steps":-1}]}`)
	f.Add("GET", "/v1/health", "[::1]:80", `null`)
	f.Add("POST", "/v1/status/../../metrics?x=%00", "a b", `{"step_seconds":{"-1":{}},"complete":true}`)
	f.Fuzz(func(t *testing.T, method, path, host, status string) {
		s := &wire.Status{}
		if err := json.Unmarshal([]byte(status), &s); err != nil {
			t.Skip("no status")
		}
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Skip("no path that a request can have")
		}
		r := &http.Request{Method: method, URL: u, Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: http.NoBody, RequestURI: path}
		w := httptest.NewRecorder()
		handler(func(context.Context) *wire.Status { return s }).ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s %s: %s", method, path, w.Body)
		}
	})
}
