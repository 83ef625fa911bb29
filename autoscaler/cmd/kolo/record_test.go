// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// TestRecord records an autoscaler that fails at first, and that ends during a request.
func TestRecord(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked++; asked {
		case 1:
			http.Error(w, `{"error": "not ready"}`, http.StatusServiceUnavailable)
			return
		case 3:
			cancel()
		}
		_, _ = w.Write([]byte(`{"time": "2026-11-20T22:00:10Z", "ready": true, "pools": [{"name": "default", "capacity": 4}], "jobs": [{
			"namespace": "default", "id": "train", "pool": "default", "state": "running", "count": 2, "min": 1, "max": 4, "seen": "2026-11-20T22:00:00Z",
			"step": 90, "step_times": [{"size": 2, "step_time": 0.5, "samples": 90}], "requests": {"preferred": 4, "slots": 1}}]}`))
	}))
	defer srv.Close()

	ui := cli.NewMockUi()
	c := &recordCommand{apiCommand{meta: meta{UI: ui}, target: clientFlags{address: srv.URL}}}
	var log bytes.Buffer
	must.NoError(t, c.record(ctx, &log, time.Millisecond))
	must.StrContains(t, ui.ErrorWriter.String(), "not ready; asking on")

	tr, err := trace.Read(&log, "log", trace.Options{})
	must.NoError(t, err)
	must.Len(t, 1, tr.Jobs)
	must.Eq(t, 90, tr.Jobs[0].Steps)
	must.Eq(t, []trace.Node{{ID: "default", Type: "default", GPUs: 4}}, tr.Nodes)
}

func TestRecord_Mistakes(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	must.NoError(t, os.WriteFile(there, []byte("mine"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"no file":          {nil, exitUsage},
		"never":            {[]string{"-every=0s", "x"}, exitUsage},
		"would write over": {[]string{there}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := &recordCommand{apiCommand{meta: meta{UI: cli.NewMockUi()}}}
			must.Eq(t, tc.want, c.Run(tc.args))
		})
	}
	text, err := os.ReadFile(there)
	must.NoError(t, err)
	must.Eq(t, "mine", string(text))
}
