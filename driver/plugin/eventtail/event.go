// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package eventtail

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// maxLine is the longest line read as an event.
const maxLine = 16 << 10

// Event is one line of the agent's event file.
type Event struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

// parseEvent parses a line as an event that is safe to display: on one line,
// without terminal control sequences, and of bounded size. The task may have
// written anything.
func parseEvent(line []byte, now time.Time) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, err
	}
	if e.Message = plaintext.Line(e.Message, plaintext.Limit); e.Message == "" {
		return Event{}, errors.New("no message")
	}
	// Nomad cannot encode some times, and would end the stream of all events.
	if e.Time.Year() < 2000 || e.Time.After(now.Add(24*time.Hour)) {
		e.Time = now
	}
	return e, nil
}
