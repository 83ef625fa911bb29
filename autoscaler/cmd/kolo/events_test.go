// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

const eventStream = `: kolo

event: resize
data: {"time": "2026-11-20T22:00:10Z", "type": "resize", "job": "lab/a", "namespace": "lab", "id": "a", "from": 2, "to": 4, "cause": "grow", "reason": "fair\u001b[2Kshare"}

event: policy
data: {"time": "2026-11-20T22:00:11Z", "type": "policy", "reason": "fifo in pool gpu"}

event: complete
data: {"time": "2026-11-20T22:00:12Z", "type": "complete", "job": "b", "namespace": "default", "id": "b", "from": 4}

`

// eventServer serves eventStream, and ends the second stream with the context.
func eventServer(t *testing.T) (*eventsCommand, *cli.MockUi, *bytes.Buffer, context.Context) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		must.Eq(t, "/v1/events", r.URL.Path)
		if calls++; calls == 3 {
			cancel()
			return
		}
		_, _ = fmt.Fprint(w, eventStream)
	}))
	t.Cleanup(s.Close)
	ui, out := cli.NewMockUi(), new(bytes.Buffer)
	return &eventsCommand{apiCommand: apiCommand{meta: meta{UI: ui}, target: clientFlags{address: s.URL}}, out: out, pause: time.Millisecond}, ui, out, ctx
}

// Each event is a line, and a stream that ends is opened again.
func TestEvents(t *testing.T) {
	c, ui, out, ctx := eventServer(t)
	matches, err := eventFilter("", "")
	must.NoError(t, err)
	must.NoError(t, c.follow(ctx, matches))
	lines := strings.Split(out.String(), "\n")
	must.Eq(t, []string{
		"2026-11-20 22:00:10  resize  lab/a  2→4  grow: fair�[2Kshare",
		"2026-11-20 22:00:11  policy: fifo in pool gpu",
		"2026-11-20 22:00:12  complete  b  4→0",
	}, lines[:3])
	must.Len(t, 7, lines)
	must.Eq(t, "the stream of events ended: the autoscaler closed the connection\nconnected again; events may be missing\n"+
		"the stream of events ended: the autoscaler closed the connection\n", ui.ErrorWriter.String()[:len("the stream of events ended: the autoscaler closed the connection\n")*2+len("connected again; events may be missing\n")])
}

// -job and -type choose events, and -json prints one object a line.
func TestEvents_Filter(t *testing.T) {
	for _, tc := range []struct{ job, types, want string }{
		{"lab/a", "", "lab/a"},
		{"b", "", "b"},
		{"a", "", ""},
		{"", "complete,resize", "lab/a b"},
		{"b", "resize", ""},
	} {
		c, _, out, ctx := eventServer(t)
		c.json = true
		matches, err := eventFilter(tc.job, tc.types)
		must.NoError(t, err)
		to, err := c.client(ctx)
		must.NoError(t, err)
		must.NoError(t, c.stream(ctx, to, matches, func() {}))
		var jobs []string
		for line := range strings.Lines(out.String()) {
			_, job, _ := strings.Cut(line, `"job":"`)
			job, _, _ = strings.Cut(job, `"`)
			jobs = append(jobs, job)
		}
		must.Eq(t, tc.want, strings.Join(jobs, " "))
	}
	_, err := eventFilter("", "resize,size")
	must.ErrorContains(t, err, `there is no type "size"`)
}

// The command ends if no autoscaler answers, or if its output cannot be written.
func TestEvents_Ends(t *testing.T) {
	c, _, _, ctx := eventServer(t)
	c.out = full{}
	must.EqError(t, c.follow(ctx, func(*api.Event) bool { return true }), "writing events: no space left")
	c.target.address = "http://127.0.0.1:1"
	must.ErrorContains(t, c.follow(ctx, func(*api.Event) bool { return true }), "the autoscaler does not answer")
}
