// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// TestStream_OfNewNamespaces: Nomad sends only events of namespaces that existed when the
// stream was opened, so a new namespace leads to another stream and to reads of all lists.
func TestStream_OfNewNamespaces(t *testing.T) {
	created := make(chan struct{})
	list := func(w http.ResponseWriter, r *http.Request) {
		index := r.URL.Query().Get("index")
		switch index {
		case "":
			index = "7"
		case "7":
			select {
			case <-created:
			case <-r.Context().Done():
				return
			}
			index = "8"
		default:
			<-r.Context().Done()
			return
		}
		w.Header().Set("X-Nomad-Index", index)
		names := `{"Name":"default"}`
		select {
		case <-created:
			names += `,{"Name":"new"}`
		default:
		}
		_, _ = fmt.Fprintf(w, "[%s]", names) // a reader that went away
	}
	w, streams, end := startStream(t, list)
	untilStream(t, w, streams, 1)
	must.Zero(t, w.eagerUntil.Load())
	close(created)
	untilStream(t, w, streams, 2)
	must.Positive(t, w.eagerUntil.Load())
	end()
	must.Eq(t, 2, streams.Load(), must.Sprint("a namespace that is known opens no stream"))
}

// TestStream_AfterUnknownNamespaces: if Nomad cannot list its namespaces before the stream
// is opened, the stream may lack the events of some. So another stream is opened once Nomad
// can list them.
func TestStream_AfterUnknownNamespaces(t *testing.T) {
	var lists atomic.Int32
	w, streams, end := startStream(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case lists.Add(1) == 1:
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
		case r.URL.Query().Get("index") == "":
			w.Header().Set("X-Nomad-Index", "7")
			_, _ = w.Write([]byte(`[{"Name":"default"}]`)) // a reader that went away
		default:
			<-r.Context().Done()
		}
	})
	untilStream(t, w, streams, 2)
	must.Positive(t, w.eagerUntil.Load())
	end()
}

// startStream makes a watcher open its stream of events, of a Nomad whose namespaces list
// answers. It counts the streams. end ends the watcher.
func startStream(t *testing.T, list http.HandlerFunc) (w *Watcher, streams *atomic.Int32, end func()) {
	streams = new(atomic.Int32)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/namespaces", list)
	mux.HandleFunc("GET /v1/event/stream", func(w http.ResponseWriter, r *http.Request) {
		streams.Add(1)
		_, _ = w.Write([]byte("{}\n")) // a reader that went away
		must.NoError(t, http.NewResponseController(w).Flush())
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c, err := NewClient(config.Nomad{Address: s.URL, Namespace: "*", Timeout: time.Minute})
	must.NoError(t, err)
	w = NewWatcher(c, time.Hour, hclog.NewNullLogger())
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = w.stream(ctx) // the context's
	}()
	return w, streams, func() { cancel(); <-ended }
}

// untilStream waits until the watcher reads the nth stream.
func untilStream(t *testing.T, w *Watcher, streams *atomic.Int32, n int32) {
	t.Helper()
	check := func() bool { return streams.Load() == n && w.streaming.Load() }
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(check), wait.Timeout(2*time.Minute), wait.Gap(10*time.Millisecond)), must.Sprintf("stream %d", n))
}
