// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package usage

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Day is a day in UTC, as the number of days since 1970.
type Day int

const dayMillis = 24 * 3600 * 1000

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return dayOf(t.UnixMilli()) }

func dayOf(ms int64) Day {
	if ms < 0 {
		return 0
	}
	return Day(ms / dayMillis)
}

// Start returns the first moment of a day.
func (d Day) Start() time.Time { return time.UnixMilli(d.millis()).UTC() }

func (d Day) millis() int64 { return int64(d) * dayMillis }

// String returns the day as 2026-11-28.
func (d Day) String() string { return d.Start().Format(time.DateOnly) }

// ParseDay reads a day as String writes it.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, err
	}
	return DayOf(t), nil
}

// Key identifies a row.
type Key struct {
	Day       Day    `json:"d"`
	Pool      string `json:"pool,omitempty"`
	Queue     string `json:"queue,omitempty"` // of the configuration
	Namespace string `json:"ns,omitempty"`
	// Job is the ID of a job. It is empty in a row with the sums of small jobs.
	Job  string `json:"job,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Shard distinguishes sums of small jobs that are saved in different variables. It is 0
	// in other rows.
	Shard int `json:"o,omitempty"`
}

// Row holds what one job used on one day, or the sum of several small jobs.
type Row struct {
	Key
	Counts

	First int64  `json:"a,omitempty"` // when its first allocation of the day began, in Unix milliseconds
	Last  int64  `json:"z,omitempty"` // up to when its allocations were counted
	End   string `json:"end,omitempty"`
}

func (r *Row) span(from, to int64) {
	if r.First == 0 || from < r.First {
		r.First = from
	}
	r.Last = max(r.Last, to)
}

// The ways in which a job can end.
const (
	Complete = "complete"
	Failed   = "failed"
	Stopped  = "stopped"
)

// Job holds what Nomad and the autoscaler know of a job.
type Job struct {
	Key               identity.JobKey
	Pool, Queue, Kind string
	Waiting           bool      // has no workers and wants some
	Suspended         bool      // the same after it had workers
	Since             time.Time // when the job was first seen
	Resizes           int       // that Kolo wrote so far
	Spares            int       // slots of its spares
	End               string    // how it ended, empty if it has not
}

// Alloc is an allocation of a job in Nomad.
type Alloc struct {
	ID      string
	Job     identity.JobKey
	Slots   int // 0 if unknown; then only an allocation that has a record is counted
	Created time.Time
	Ended   time.Time // zero if it holds its slots
	Failed  bool      // it failed or was lost
}

// Report holds what a job's training reports about itself.
type Report struct {
	Size    int // of the ring, in slots
	Steps   []Steps
	Resizes []Resize
}

// Steps is the number of steps made by rings of one size, and their mean time.
type Steps struct {
	Size    int // in slots
	N       int
	Seconds float64
}

// Resize is a change of the ring.
type Resize struct {
	Time     float64 // Unix seconds
	From, To int     // slots
	Start    bool    // the first ring of the job
	Failure  bool
	Gap      float64 // seconds without a step; 0 if unknown
	Lost     float64 // steps that were done again; 0 if unknown
}
