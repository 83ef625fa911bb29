// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// events sends what happens as server-sent events, and a comment now and then
// so that a dead connection is noticed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	events, stop := s.agent.Watch()
	defer stop()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	send := func(text string) bool {
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return flush.Flush() == nil
	}
	if !send(": kolo\n\n") {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if !send(": still here\n\n") {
				return
			}
		case e := <-events:
			data, err := json.Marshal(e)
			if err != nil || !send(fmt.Sprintf("event: %s\ndata: %s\n\n", e.Type, data)) {
				return
			}
		}
	}
}
