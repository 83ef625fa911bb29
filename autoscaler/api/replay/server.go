// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/page"
	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
)

const (
	bodyLimit   = 4 << 10
	headerLimit = 32 << 10

	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = 2 * time.Minute

	streamTick  = 250 * time.Millisecond
	heartbeat   = 15 * time.Second
	mostAtOnce  = 100 // events
	mostStreams = 64
)

// Server serves the page and its answers from a recording.
type Server struct {
	handler http.Handler
	machine string // its host name
	streams chan struct{}

	mu     sync.Mutex // also of the recording
	rec    *recording.Recording
	player player
}

// NewServer returns a server that plays a recording from its beginning, at speed times the
// recorded one.
func NewServer(rec *recording.Recording, speed float64) (*Server, error) {
	s := &Server{rec: rec, streams: make(chan struct{}, mostStreams)}
	s.machine, _ = os.Hostname() // if this fails, the machine has no name
	var err error
	now := time.Now()
	playing := true
	s.player, err = player{from: rec.From(), to: rec.To(), at: rec.From(), since: now}.set(api.SetReplay{Playing: &playing, Speed: &speed}, now)
	if err != nil {
		return nil, err
	}
	view := page.Handler()
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", view)
	mux.Handle("GET /page/{file...}", view)
	mux.HandleFunc("GET /v1/replay", s.state)
	mux.HandleFunc("PUT /v1/replay", s.set)
	mux.HandleFunc("GET /v1/events", s.events)
	mux.HandleFunc("GET /v1/{path...}", s.recorded)
	mux.HandleFunc("/v1/{path...}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, fmt.Errorf("this is a replay, in which nothing can be changed: no %s %s", r.Method, r.URL.Path))
	})
	s.handler = http.NewCrossOriginProtection().Handler(mux)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page.Protect(w.Header())
	if !s.ours(r.Host) {
		refuse(w, http.StatusForbidden, fmt.Errorf("requests to %q are refused: call the replay by an IP address, localhost, or the name of its machine", r.Host))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	s.handler.ServeHTTP(w, r)
}

// ours reports whether a request names a host that no page of another site can make resolve
// to this machine (DNS rebinding).
func (s *Server) ours(host string) bool {
	host = strings.TrimSuffix(strings.ToLower((&url.URL{Host: host}).Hostname()), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || host != "" && strings.EqualFold(host, s.machine)
}

func (s *Server) state(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	p := s.player
	s.mu.Unlock()
	answer(w, p.state(time.Now()))
}

func (s *Server) set(w http.ResponseWriter, r *http.Request) {
	var c api.SetReplay
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("the body: %w", err))
		return
	}
	now := time.Now()
	s.mu.Lock()
	p, err := s.player.set(c, now)
	if err == nil {
		s.player = p
	}
	s.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, p.state(now))
}

// recorded answers with what the autoscaler answered.
func (s *Server) recorded(w http.ResponseWriter, r *http.Request) {
	request := canonical(r.URL)
	if request == "/v1/timeline" {
		request = "/v1/timeline?since=2h" // the default
	}
	s.mu.Lock()
	at := s.player.position(time.Now())
	text, there, err := s.rec.Answer(at, request)
	s.mu.Unlock()
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, fmt.Errorf("the recording: %w", err))
	case !there:
		refuse(w, http.StatusNotFound, fmt.Errorf("the recording has no answer to %s at %s", request, at.UTC().Format(time.RFC3339)))
	default:
		if request == "/v1/status" {
			text = marked(text)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the reader may have disconnected
	}
}

// marked returns a status that says that it is recorded.
func marked(status []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(status, &fields) != nil || len(fields) == 0 {
		return []byte(`{"replay":true}`) // it is of no autoscaler
	}
	if rest, ok := bytes.CutPrefix(status, []byte("{")); ok && fields["replay"] == nil {
		return append([]byte(`{"replay":true,`), rest...)
	}
	fields["replay"] = json.RawMessage("true")
	out, err := json.Marshal(fields)
	if err != nil {
		return []byte(`{"replay":true}`)
	}
	return out
}

// events streams events as the replay passes them. A jump sends none.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		refuse(w, http.StatusTooManyRequests, errors.New("too many event streams are open"))
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // without it, the page connects again
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) bool {
		if err := control.SetWriteDeadline(time.Now().Add(readTimeout)); err != nil {
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	tick := time.NewTicker(streamTick)
	defer tick.Stop()
	last, jumps, sent := time.Time{}, -1, time.Now()
	ok := send(": kolo\n\n")
	for ok {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		now := s.player.position(time.Now())
		if s.player.jumps != jumps {
			last, jumps = now, s.player.jumps
		}
		events, err := s.rec.Events(last, now, mostAtOnce)
		s.mu.Unlock()
		if err != nil {
			return // the page's other requests report it
		}
		last = now
		for _, text := range events {
			ok, sent = ok && send(eventText(text)), time.Now()
		}
		if time.Since(sent) > heartbeat {
			ok, sent = send(": still here\n\n"), time.Now()
		}
	}
}

// eventText returns a recorded event in the format of the stream, or a comment if it is none.
func eventText(text []byte) string {
	var e api.Event
	if json.Unmarshal(text, &e) != nil {
		return ": no event\n\n"
	}
	again, err := json.Marshal(e) // without line breaks, which would end it
	if err != nil || strings.ContainsAny(e.Type, "\r\n") {
		return ": no event\n\n"
	}
	return fmt.Sprintf("event: %s\ndata: %s\n\n", e.Type, again)
}

// Serve serves a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler: s, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerLimit,
		BaseContext: func(net.Listener) context.Context { return ctx }, // which ends streams
	}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	err := hs.Close()
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader may have disconnected
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(api.Problem{Error: err.Error()}) // the reader may have disconnected
}
