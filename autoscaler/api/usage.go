// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
)

// Usage holds what one or several jobs used. Slot times are in slot-seconds, and the
// categories add up to Held.
type Usage struct {
	Held       float64 `json:"held"`
	Productive float64 `json:"productive"`
	Starting   float64 `json:"starting"`
	Resizing   float64 `json:"resizing"`
	Lost       float64 `json:"lost"`
	Spare      float64 `json:"spare"`
	Idle       float64 `json:"idle"`
	Unknown    float64 `json:"unknown"`
	// Share is the productive share. It is absent if all held time is unknown.
	Share *float64 `json:"productive_share,omitempty"`

	Waiting   float64 `json:"waiting"` // seconds without workers
	Resizes   int     `json:"resizes"`
	Failures  int     `json:"failures"`
	Evictions int     `json:"evictions"`
}

// NewUsage converts counts to the form of the API.
func NewUsage(c *usage.Counts) Usage {
	seconds := func(ms int64) float64 { return float64(ms) / 1000 }
	u := Usage{
		Held: seconds(c.Held), Productive: seconds(c.Productive), Starting: seconds(c.Starting), Resizing: seconds(c.Resizing),
		Lost: seconds(c.Lost), Spare: seconds(c.Spare), Idle: seconds(c.Idle()), Unknown: seconds(c.Unknown),
		Waiting: seconds(c.Waiting), Resizes: c.Resizes, Failures: c.Failures, Evictions: c.Evictions,
	}
	if share, known := c.Share(); known {
		u.Share = &share
	}
	return u
}

// Wasted returns the slot-seconds that are neither productive nor unknown nor of spares.
func (u *Usage) Wasted() float64 { return u.Held - u.Productive - u.Spare - u.Unknown }

// UsageReport is the answer to GET /v1/usage: the sums of whole days in UTC.
type UsageReport struct {
	From string     `json:"from"` // first day, such as 2026-11-01
	To   string     `json:"to"`   // last day
	By   usage.By   `json:"by"`
	Rows []UsageRow `json:"rows"`
}

// UsageRow is one sum. Only the fields that identify it are set.
type UsageRow struct {
	Day       string `json:"day,omitempty"`
	Pool      string `json:"pool,omitempty"`
	Queue     string `json:"queue,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Job       string `json:"job,omitempty"`   // absent in the sum of small jobs
	Other     bool   `json:"other,omitempty"` // the sum of the small jobs of a namespace
	Kind      string `json:"kind,omitempty"`
	Usage
	First time.Time `json:"first,omitzero"` // when slots were first held
	Last  time.Time `json:"last,omitzero"`  // up to when
	End   string    `json:"end,omitempty"`  // complete, failed or stopped; of a job
}

// NewUsageRow converts a row to the form of the API. by states how rows were
// grouped.
func NewUsageRow(r *usage.Row, by usage.By) UsageRow {
	out := UsageRow{
		Pool: r.Pool, Queue: r.Queue, Namespace: r.Namespace, Job: r.Job, Kind: r.Kind, End: r.End,
		Other: by == usage.ByJob && r.Job == "", Usage: NewUsage(&r.Counts),
	}
	if by == usage.ByDay {
		out.Day = r.Day.String()
	}
	if r.First > 0 {
		out.First, out.Last = time.UnixMilli(r.First).UTC(), time.UnixMilli(r.Last).UTC()
	}
	return out
}
