// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

// Event is one of the events that GET /v1/events streams.
type Event struct {
	Time      time.Time `json:"time"`
	Type      string    `json:"type"` // resize, moved, leader, policy, pause, problem, complete, failed, idle, late, stalled, straggler, reload, trouble
	Job       string    `json:"job,omitempty"`
	Namespace string    `json:"namespace,omitempty"` // of the job; Job includes it unless it is "default"
	ID        string    `json:"id,omitempty"`
	From      int       `json:"from"`
	To        int       `json:"to"`
	Cause     string    `json:"cause,omitempty"`
	Reason    string    `json:"reason,omitempty"`
}
