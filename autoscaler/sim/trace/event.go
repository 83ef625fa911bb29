// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// Kinds of entries in Kolo's event log.
const (
	EventJob      = "job"       // a job arrived, or its bounds changed
	EventCount    = "count"     // a job's number of workers changed
	EventStepTime = "step-time" // a step time was measured
	EventResize   = "resize"    // a ring was re-formed, with the gap it took
	EventProgress = "progress"  // steps done so far
	EventEnd      = "end"       // a job is over
	EventNode     = "node"      // a node came, went, or changed
)

// Event is one line of Kolo's event log, a JSON object. The log records a live autoscaler,
// so that the simulator can replay its day under another policy. A field is absent if it
// does not belong to the event's kind.
type Event struct {
	Time float64 `json:"time"`  // Unix seconds
	Kind string  `json:"event"` // one of the kinds above

	Job string `json:"job,omitempty"` // all kinds except node

	// job
	App         string    `json:"app,omitempty"`
	Tenant      string    `json:"tenant,omitempty"`
	Type        string    `json:"gpu_type,omitempty"` // node, too
	Weight      float64   `json:"weight,omitempty"`
	Priority    int       `json:"priority,omitempty"`
	Min         int       `json:"min,omitempty"`
	Max         int       `json:"max,omitempty"`
	Preferred   int       `json:"preferred,omitempty"`
	Sizes       sizes.Set `json:"sizes,omitzero"`
	PerWorker   int       `json:"per_worker,omitempty"`
	Preemptible *bool     `json:"preemptible,omitempty"` // absent is true
	Deadline    float64   `json:"deadline,omitempty"`    // Unix seconds
	TotalSteps  float64   `json:"total_steps,omitempty"`
	Count       *int      `json:"count,omitempty"`   // count
	Reason      string    `json:"reason,omitempty"`  // count
	Workers     int       `json:"workers,omitempty"` // step-time
	Seconds     float64   `json:"seconds,omitempty"` // step-time; resize: the gap
	Samples     int       `json:"samples,omitempty"` // step-time
	From        int       `json:"from,omitempty"`    // resize
	To          int       `json:"to,omitempty"`      // resize
	Steps       *float64  `json:"steps,omitempty"`   // progress, end: global steps done
	Outcome     string    `json:"outcome,omitempty"` // end: complete, failed, stopped

	// node
	Node  string `json:"node,omitempty"`
	GPUs  int    `json:"gpus,omitempty"`
	State string `json:"state,omitempty"` // up, down, withdraw
}

// WriteEvents writes events as lines of an event log.
func WriteEvents(w io.Writer, events []Event) error {
	enc := json.NewEncoder(w)
	for i := range events {
		if err := enc.Encode(&events[i]); err != nil {
			return fmt.Errorf("event log: %w", err)
		}
	}
	return nil
}
