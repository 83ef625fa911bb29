// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

// patience is how long tests wait for what happens in milliseconds.
const patience = time.Minute

// fakeNomad answers as Nomad's HTTP API does, blocking queries included.
type fakeNomad struct {
	mu      sync.Mutex
	changed chan struct{}
	index   uint64
	regs    []*api.ServiceRegistration
	token   string // the only one let in
	status  int    // answers all with it, if set
	keys    []jose.JSONWebKey
	queries []string
}

func newFakeNomad() *fakeNomad {
	return &fakeNomad{changed: make(chan struct{}), index: 10, token: "secret"}
}

func (f *fakeNomad) set(change func(*fakeNomad)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeNomad) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries = append(f.queries, r.URL.String())
	switch {
	case f.status != 0:
		http.Error(w, "as told", f.status)
		return
	case r.Header.Get("X-Nomad-Token") != f.token:
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	var out any
	switch r.URL.Path {
	case "/.well-known/jwks.json":
		out = jose.JSONWebKeySet{Keys: f.keys}
	case "/v1/service/train":
		index, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
		wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
		deadline := time.After(wait)
		for over := false; index > 0 && f.index <= index && !over; {
			changed := f.changed
			f.mu.Unlock()
			select {
			case <-changed:
			case <-deadline:
				over = true
			case <-r.Context().Done():
				over = true
			}
			f.mu.Lock()
		}
		out = f.regs
		if f.regs == nil {
			out = []string{}
		}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(f.index, 10))
	w.Header().Set("X-Nomad-LastContact", "0")
	w.Header().Set("X-Nomad-KnownLeader", "true")
	_ = json.NewEncoder(w).Encode(out)
}

// listen serves the fake on a socket, as the Task API is.
func (f *fakeNomad) listen(t *testing.T) string {
	dir, err := os.MkdirTemp("", "kolo") // t.TempDir is too long for a socket
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "api.sock")
	l, err := net.Listen("unix", path)
	must.NoError(t, err)
	srv := httptest.NewUnstartedServer(f)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return "unix://" + path
}

func registration(alloc, group string, port int, index uint64) *api.ServiceRegistration {
	return &api.ServiceRegistration{
		ID:          fmt.Sprintf("_nomad-task-%s-group-%s-train-kolo", alloc, group),
		ServiceName: "train", Namespace: "ml", JobID: "job", AllocID: alloc,
		Address: "10.0.0.1", Port: port, CreateIndex: index,
	}
}

func TestNomad_read(t *testing.T) {
	f := newFakeNomad()
	other, elsewhere := registration("c", "w", 3, 7), registration("d", "w", 4, 8)
	other.JobID, elsewhere.Namespace = "other", "default"
	v6 := registration("b", "rack-2", 2, 6)
	v6.Address = "fd00::1"
	f.regs = []*api.ServiceRegistration{v6, registration("a", "rack-1", 1, 5), other, elsewhere}

	token := filepath.Join(t.TempDir(), "nomad_token")
	must.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
	n, err := NewNomad(NomadOptions{Address: f.listen(t), Token: nomadapi.Token{File: token}, Service: "train", Namespace: "ml", JobID: "job"})
	must.NoError(t, err)
	before := time.Now()
	v := n.Read(t.Context())
	must.NoError(t, v.Err)
	must.False(t, v.At.Before(before))
	must.Eq(t, 10, v.Index)
	must.Eq(t, []Peer{
		{AllocID: "a", Group: "rack-1", Addr: "10.0.0.1:1", Index: -1, Registered: 5},
		{AllocID: "b", Group: "rack-2", Addr: "[fd00::1]:2", Index: -1, Registered: 6},
	}, v.Peers)
	must.StrContains(t, f.queries[0], "namespace=ml")
	must.StrNotContains(t, f.queries[0], "stale")

	p, ok := v.Find("b")
	must.True(t, ok)
	must.Eq(t, "b", p.AllocID)
	_, ok = v.Find("z")
	must.False(t, ok)
}

func TestNomad_errors(t *testing.T) {
	f := newFakeNomad()
	addr := f.listen(t)
	t.Setenv("KOLO_TEST_GOOD", "secret")
	t.Setenv("KOLO_TEST_BAD", "stolen")
	cases := map[string]struct {
		address string
		token   nomadapi.Token
		status  int
		want    error
		text    string
	}{
		"refused":        {addr, nomadapi.Token{Env: "KOLO_TEST_BAD"}, 0, nomadapi.ErrForbidden, "may not read services"},
		"not valid":      {addr, nomadapi.Token{Env: "KOLO_TEST_GOOD"}, http.StatusUnauthorized, nomadapi.ErrForbidden, "identity { env = true file = true }"},
		"no leader":      {addr, nomadapi.Token{Env: "KOLO_TEST_GOOD"}, http.StatusInternalServerError, nil, "want of a leader"},
		"odd":            {addr, nomadapi.Token{Env: "KOLO_TEST_GOOD"}, http.StatusTeapot, nil, "418"},
		"no socket":      {"unix:///nowhere/api.sock", nomadapi.Token{Env: "KOLO_TEST_GOOD"}, 0, nomadapi.ErrUnreachable, "Task API socket"},
		"no variable":    {addr, nomadapi.Token{Env: "KOLO_TEST_NONE"}, 0, nomadapi.ErrNoIdentity, "identity { env = true file = true }"},
		"no file":        {addr, nomadapi.Token{File: "/nowhere/nomad_token"}, 0, nomadapi.ErrNoIdentity, "identity { env = true file = true }"},
		"empty file":     {addr, nomadapi.Token{File: os.DevNull}, 0, nomadapi.ErrNoIdentity, "is empty"},
		"nothing at all": {addr, nomadapi.Token{}, 0, nomadapi.ErrNoIdentity, "identity { env = true file = true }"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f.set(func(f *fakeNomad) { f.status = tc.status })
			n, err := NewNomad(NomadOptions{Address: tc.address, Token: tc.token, Service: "train"})
			must.NoError(t, err)
			v := n.Read(t.Context())
			if tc.want != nil {
				must.ErrorIs(t, v.Err, tc.want)
			}
			must.ErrorContains(t, v.Err, tc.text)
			must.True(t, v.At.IsZero())
		})
	}
	for name, o := range map[string]NomadOptions{
		"no service": {Address: addr}, "no address": {Service: "train"}, "bad address": {Service: "train", Address: "http://[::1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewNomad(o)
			must.Error(t, err)
		})
	}
}

// TestNomad_watch follows changes, outages and a new token.
func TestNomad_watch(t *testing.T) {
	f := newFakeNomad()
	token := filepath.Join(t.TempDir(), "nomad_token")
	must.NoError(t, os.WriteFile(token, []byte("secret"), 0o600))
	n, err := NewNomad(NomadOptions{
		Address: f.listen(t), Token: nomadapi.Token{File: token}, Service: "train", Namespace: "ml", JobID: "job", Logger: hclog.NewNullLogger(),
	})
	must.NoError(t, err)
	n.wait, n.pause = 20*time.Millisecond, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	views := n.Watch(ctx)
	until := func(what string, ok func(View) bool) View {
		t.Helper()
		deadline := time.After(patience)
		for {
			select {
			case v := <-views:
				if ok(v) {
					return v
				}
			case <-deadline:
				t.Fatalf("no view with %s", what)
			}
		}
	}
	first := until("nobody", func(v View) bool { return v.Err == nil && len(v.Peers) == 0 })
	// Nothing changes: confirmed again and again.
	until("a later confirmation", func(v View) bool { return v.At.After(first.At) && v.Index == first.Index })

	f.set(func(f *fakeNomad) { f.regs = append(f.regs, registration("a", "w", 1, 11)) })
	seen := until("one peer", func(v View) bool { return len(v.Peers) == 1 })

	f.set(func(f *fakeNomad) { f.status = http.StatusInternalServerError })
	lost := until("an error", func(v View) bool { return v.Err != nil })
	must.Len(t, 1, lost.Peers) // the last good read
	must.False(t, lost.At.Before(seen.At))

	f.set(func(f *fakeNomad) { f.status, f.token = 0, "renewed" })
	until("a refusal", func(v View) bool { return v.Err != nil && strings.Contains(v.Err.Error(), "403") })
	must.NoError(t, os.WriteFile(token, []byte("renewed"), 0o600))
	back := until("the new token", func(v View) bool { return v.Err == nil })
	must.True(t, back.At.After(lost.At))

	// The servers' state is restored from a snapshot: indexes start over.
	f.set(func(f *fakeNomad) { f.index, f.regs = 3, nil })
	until("the restored state", func(v View) bool { return v.Index == 4 && len(v.Peers) == 0 })

	cancel()
	deadline := time.After(patience)
	for open := true; open; {
		select {
		case _, open = <-views:
		case <-deadline:
			t.Fatal("the channel stays open")
		}
	}
}

func TestGroupOf(t *testing.T) {
	for name, tc := range map[string]struct{ id, want string }{
		"plain":          {"_nomad-task-a1-group-workers-train-kolo", "workers"},
		"dashes":         {"_nomad-task-a1-group-rack-1-a100-train-kolo", "rack-1-a100"},
		"service inside": {"_nomad-task-a1-group-x-train-y-train-kolo", "x-train-y"},
		"no port":        {"_nomad-task-a1-group-workers-train-", "workers"},
		"task service":   {"_nomad-task-a1-worker-train-kolo", ""},
		"another alloc":  {"_nomad-task-b2-group-workers-train-kolo", ""},
		"no group":       {"_nomad-task-a1-group--train-kolo", ""},
		"empty":          {"", ""},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, tc.want, groupOf(tc.id, "a1", "train")) })
	}
}
