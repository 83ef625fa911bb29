// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// heartbeat is the interval at which a stream sends a comment, which detects dead
// connections, and checks its caller's token again.
const heartbeat = 15 * time.Second

// events streams events as server-sent events. A stream has no time limit, but each
// of its writes has.
func (s *Server) events(w http.ResponseWriter, r *http.Request, sc *scope) {
	from, streams := address(r), s.quota(r).streams
	if ip := net.ParseIP(from); ip != nil {
		from = origin(ip)
	}
	if !streams.take(from) {
		fail(w, tooMany("30", "too many event streams are open; close some, or poll /v1/status instead"))
		return
	}
	defer streams.give(from)
	events, stop := s.controller.Subscribe()
	defer stop()
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		s.log.Debug("an event stream may be cut off", "error", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) bool {
		if err := control.SetWriteDeadline(time.Now().Add(s.limits.stream)); err != nil {
			return false
		}
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	if !send(": kolo\n\n") {
		return
	}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			var err error
			if sc, err = s.scope(r); err != nil || !send(": still here\n\n") {
				return // the token is no longer valid, or the client has disconnected
			}
		case e := <-events:
			text, err := sc.event(r, e)
			if err != nil || text != "" && !send(text) {
				return
			}
		}
	}
}

// event returns an event in the format of the stream, or "" if the caller may not
// read it.
func (sc *scope) event(r *http.Request, e api.Event) (string, error) {
	if may, err := sc.may(r.Context(), &e); !may || err != nil {
		return "", err
	}
	data, err := json.Marshal(e)
	return fmt.Sprintf("event: %s\ndata: %s\n\n", e.Type, data), err
}
