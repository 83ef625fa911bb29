// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

// Replay is the answer to GET /v1/replay, which only `kolo replay` serves: the recording, and
// the recorded time that all other answers are from.
type Replay struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	At      time.Time `json:"at"`
	Playing bool      `json:"playing"` // At moves on, up to To
	Speed   float64   `json:"speed"`   // recorded seconds in a second
}

// SetReplay is the body of PUT /v1/replay. Absent fields keep their values.
type SetReplay struct {
	At      *time.Time `json:"at,omitempty"`
	Playing *bool      `json:"playing,omitempty"`
	Speed   *float64   `json:"speed,omitempty"`
}
