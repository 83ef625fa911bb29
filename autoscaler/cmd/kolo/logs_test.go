// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// logging stands for an autoscaler and a Nomad with the logs of a job's allocations.
type logging struct {
	mu     sync.Mutex
	ranks  map[string][]int  // by allocation
	logs   map[string]string // by allocation and stream
	asked  []string          // tokens
	status int               // of Nomad's answers, 0 is 200
}

const (
	allocA = "aaaaaaaa-0000-0000-0000-000000000000"
	allocB = "bbbbbbbb-0000-0000-0000-000000000000"
)

func (l *logging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, id := r.URL.Path, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	kind = strings.TrimSuffix(kind, id)
	if kind != "/v1/" { // Nomad
		l.asked = append(l.asked, r.Header.Get("X-Nomad-Token"))
		if l.status != 0 {
			http.Error(w, "Permission denied", l.status)
			return
		}
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch kind {
	case "/v1/":
		var list []map[string]any
		for id, ranks := range l.ranks {
			list = append(list, map[string]any{"id": id, "node": "n1", "slots": len(ranks), "ranks": ranks})
		}
		answer(map[string]any{"job": map[string]any{"id": "train"}, "allocations": list})
	case "/v1/allocation/":
		answer(map[string]any{"ID": id, "NodeID": "n", "TaskGroup": "workers", "Job": map[string]any{"TaskGroups": []any{map[string]any{
			"Name": "workers", "Tasks": []any{map[string]any{"Name": "log-shipper", "Driver": "docker"}, map[string]any{"Name": "train", "Driver": "torch"}},
		}}}})
	case "/v1/client/fs/logs/":
		q := r.URL.Query()
		text := []byte(l.logs[id+" "+q.Get("task")+" "+q.Get("type")])
		for len(text) > 0 { // frames end anywhere
			n := min(len(text), 7)
			answer(map[string]any{"Data": text[:n], "Offset": 1})
			text = text[n:]
		}
		if q.Get("follow") == "true" {
			w.(http.Flusher).Flush()
			l.mu.Unlock()
			<-r.Context().Done()
			l.mu.Lock()
		}
	default:
		http.NotFound(w, r) // such as the node: the log comes through the server
	}
}

func newLogging(t *testing.T) (*logging, *logsCommand, *syncBuffer) {
	l := &logging{ranks: map[string][]int{allocB: {0, 1}, allocA: {2, 3}}, logs: map[string]string{
		allocA + " train stdout": "[0] step 1\n[1] step 1\n[0] \x1b[31mstep\t2\x1b[0m\n",
		allocB + " train stdout": "kolo: ring of 4\n[1] loss 0.5\n[0] no end",
		allocB + " train stderr": "[0] warning\n",
	}}
	web := httptest.NewServer(l)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	t.Setenv("NOMAD_ADDR", web.URL)
	t.Setenv("NOMAD_TOKEN", "secret")
	t.Setenv("KOLO_ADDR", web.URL)
	out := &syncBuffer{}
	return l, &logsCommand{apiCommand: apiCommand{meta: meta{UI: cli.NewMockUi()}}, out: out, every: time.Millisecond}, out
}

// syncBuffer is a buffer that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Lines come in the order of ranks, each with its rank, and without control characters.
func TestLogs(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"all":    {nil, "bbbbbbbb kolo: ring of 4\nrank 1   loss 0.5\nrank 0   no end\nrank 2   step 1\nrank 3   step 1\nrank 2   �[31mstep�2�[0m\n"},
		"tail":   {[]string{"-n=1"}, "rank 0   no end\nrank 2   �[31mstep�2�[0m\n"},
		"none":   {[]string{"-n=0"}, ""},
		"rank":   {[]string{"-rank=3"}, "rank 3   step 1\n"},
		"stderr": {[]string{"-stderr"}, "rank 0   warning\n"},
		"task":   {[]string{"-task=log-shipper"}, ""},
		"json":   {[]string{"-json", "-rank=1"}, fmt.Sprintf(`{"alloc":%q,"node":"n1","rank":1,"text":"loss 0.5"}`+"\n", allocB)},
	} {
		t.Run(name, func(t *testing.T) {
			l, c, out := newLogging(t)
			must.Eq(t, 0, c.Run(append(tc.args, "train")), must.Sprint(c.UI.(*cli.MockUi).ErrorWriter))
			must.Eq(t, tc.want, out.String())
			for _, token := range l.asked {
				must.Eq(t, "secret", token)
			}
		})
	}
}

// A followed log goes on, and an allocation that joins is followed, too. If Nomad refuses at
// first, the command tries again.
func TestLogs_Follow(t *testing.T) {
	l, c, out := newLogging(t)
	l.ranks = map[string][]int{allocB: {0, 1}}
	l.status = http.StatusNotFound
	ctx, cancel := context.WithCancel(t.Context())
	c.begin = func() (context.Context, context.CancelFunc) { return ctx, cancel }
	done := make(chan int, 1)
	go func() { done <- c.Run([]string{"-f", "train"}) }()
	shows := func(text string) {
		t.Helper()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return strings.Contains(out.String(), text) }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	}
	warned := c.UI.(*cli.MockUi).ErrorWriter
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return strings.Contains(warned.String(), "trying again") }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	l.mu.Lock()
	l.status = 0
	l.mu.Unlock()
	shows("rank 1   loss 0.5")
	l.mu.Lock()
	l.ranks[allocA] = []int{2, 3}
	l.mu.Unlock()
	shows("rank 3   step 1")
	cancel()
	must.Eq(t, 0, <-done)
	must.Eq(t, 1, strings.Count(warned.String(), "trying again"))
	must.Eq(t, 1, strings.Count(out.String(), "loss 0.5"))
}

func TestLogs_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		change func(*logging)
		code   int
		says   string
	}{
		"no job":        {nil, nil, exitUsage, "one argument"},
		"many lines":    {[]string{"-n=1001", "train"}, nil, exitUsage, "-n=1001: write a number from 0 to 1000"},
		"rank":          {[]string{"-rank=-2", "train"}, nil, exitUsage, "-rank=-2"},
		"no such rank":  {[]string{"-rank=4", "train"}, nil, 1, "has no rank 4 now"},
		"no allocation": {[]string{"train"}, func(l *logging) { l.ranks = nil }, 1, "train has no allocation now"},
		"not allowed":   {[]string{"train"}, func(l *logging) { l.status = http.StatusForbidden }, 1, "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			l, c, _ := newLogging(t)
			if tc.change != nil {
				tc.change(l)
			}
			must.Eq(t, tc.code, c.Run(tc.args))
			must.StrContains(t, c.UI.(*cli.MockUi).ErrorWriter.String(), tc.says)
		})
	}
}

// All parts of a line have its slot. Text in the middle of a line names none.
func TestLogLines_PartsHaveTheSlotOfTheirLine(t *testing.T) {
	for _, slot := range []string{"[3] ", ""} {
		var got []string
		l := logLines{emit: func(text string) { got = append(got, text) }, isLive: true}
		l.add([]byte(slot + strings.Repeat("x", logLine-len(slot)) + "[1] forged" + strings.Repeat("y", 2*logLine) + "\n[2] next\n"))
		must.Len(t, 5, got)
		for _, part := range got[:4] {
			must.Eq(t, slot, ofSlot.FindString(part), must.Sprint(part[:min(20, len(part))]))
		}
		must.Eq(t, "[2] next", got[4])
	}
}

// A line without end is cut into pieces, and only the last lines are kept.
func TestLogLines_Bounded(t *testing.T) {
	var got []string
	l := logLines{most: 3, emit: func(text string) { got = append(got, text) }}
	for range 100 {
		l.add(bytes.Repeat([]byte("x"), 1000))
		must.LessEq(t, logLine+1000, len(l.rest))
	}
	must.Len(t, 3, l.held)
	l.add([]byte("\nlast\n"))
	l.live()
	must.Eq(t, "last", got[2])
	must.LessEq(t, logLine, len(got[0]))
	l.add([]byte("one\ntwo"))
	must.Eq(t, []string{"one"}, got[3:])
	l.end()
	must.Eq(t, "two", got[4])
}
