// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

// Job is the answer to GET /v1/job.
type Job struct {
	Job        *JobStatus     `json:"job"`
	Ineligible *IneligibleJob `json:"ineligible,omitempty"`
	History    []Change       `json:"history"` // newest first
	JobDetail
}

// Change is one change of a group's count. Nomad keeps the last 20 of each group.
type Change struct {
	Time    time.Time `json:"time"`
	Group   string    `json:"group"`
	From    int       `json:"from"`
	To      int       `json:"to"`
	Kolo    bool      `json:"kolo"` // written by an autoscaler, not by hand
	Error   bool      `json:"error,omitempty"`
	Message string    `json:"message"`
}
