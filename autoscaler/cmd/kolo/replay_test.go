// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

const demo = "../../../docs/demo.kolo"

// startReplay runs kolo replay until the test ends, and returns the address that it prints.
func startReplay(t *testing.T, args ...string) (url string, ui *cli.MockUi) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ui = cli.NewMockUi()
	c := &replayCommand{meta{UI: ui, begin: func() (context.Context, context.CancelFunc) { return ctx, cancel }}}
	done := make(chan int, 1)
	go func() { done <- c.Run(args) }()
	t.Cleanup(func() {
		cancel()
		must.Eq(t, 0, <-done)
	})
	address := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		url = address.FindString(ui.OutputWriter.String())
		return url != ""
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)), must.Func(func() string { return ui.ErrorWriter.String() }))
	return url, ui
}

// The demo is served on loopback, where other commands can query it.
func TestReplay(t *testing.T) {
	url, _ := startReplay(t, demo)
	ui := cli.NewMockUi()
	c := &statusCommand{apiCommand{meta: meta{UI: ui}}}
	must.Eq(t, 0, c.Run([]string{"-address=" + url}), must.Sprint(ui.ErrorWriter))
	must.StrContains(t, ui.OutputWriter.String(), "imagenet-resnet50")
	must.Eq(t, 1, (&pauseCommand{apiCommand: apiCommand{meta: meta{UI: ui}}}).Run([]string{"-address=" + url}))
	must.StrContains(t, ui.ErrorWriter.String(), "this is a replay, in which nothing can be changed")
}

func TestReplay_Mistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	whole, err := os.ReadFile(demo)
	must.NoError(t, err)
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer taken.Close()
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no file":       {nil, exitUsage, "one argument"},
		"missing":       {[]string{filepath.Join(dir, "missing")}, 1, "no such file"},
		"directory":     {[]string{dir}, 1, "is a directory"},
		"of simulate":   {[]string{file("log", `{"time":0}`)}, 1, "log: it begins with \"{\\\"time"},
		"too short":     {[]string{file("short", string(whole[:200]))}, 1, "short: byte 17: no whole block"},
		"speed":         {[]string{"-speed=0", demo}, exitUsage, "-speed: 0 is not between"},
		"address taken": {[]string{"-listen=" + taken.Addr().String(), demo}, 1, "address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			ui := cli.NewMockUi()
			must.Eq(t, tc.code, (&replayCommand{meta{UI: ui}}).Run(tc.args))
			must.StrContains(t, ui.ErrorWriter.String(), tc.says)
		})
	}
}

// A recording that is cut off is replayed up to its last whole block, with a warning.
func TestReplay_CutOff(t *testing.T) {
	whole, err := os.ReadFile(demo)
	must.NoError(t, err)
	path := filepath.Join(t.TempDir(), "torn.kolo")
	must.NoError(t, os.WriteFile(path, whole[:len(whole)-10], 0o600))
	_, ui := startReplay(t, path)
	must.StrContains(t, ui.ErrorWriter.String(), "are not whole, so the replay ends before them")
}

// kolo record -page records what kolo replay serves, without the token.
func TestRecord_Page(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/events":
			<-r.Context().Done()
		case "/v1/status":
			if asked.Add(1) == 3 {
				cancel()
			}
			_, _ = w.Write([]byte(`{"autoscaler":"recorded","ready":true,"pools":[],"jobs":[]}`))
		default:
			_, _ = w.Write([]byte(`[]`))
		}
	}))
	defer srv.Close()
	path := filepath.Join(t.TempDir(), "monday.kolo")
	ui := cli.NewMockUi()
	c := &recordCommand{apiCommand{meta: meta{UI: ui, begin: func() (context.Context, context.CancelFunc) { return ctx, cancel }}}}
	must.Eq(t, 0, c.Run([]string{"-page", "-every=10ms", "-address=" + srv.URL, "-token=very-secret", path}), must.Sprint(ui.ErrorWriter))
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	must.False(t, strings.Contains(string(text), "very-secret"))
	url, _ := startReplay(t, path)
	s, err := api.NewClient(url).Status(t.Context())
	must.NoError(t, err)
	must.Eq(t, "recorded", s.Autoscaler)
	must.True(t, s.Replay)
	raw, err := api.NewClient(url).Do(t.Context(), http.MethodGet, "/v1/nodes", nil, nil, &[]json.RawMessage{})
	must.NoError(t, err)
	must.Eq(t, "[]", string(raw))
}
