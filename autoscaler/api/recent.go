// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// Timeline is the answer to GET /v1/timeline: the slots that each job held over time, as far
// as this autoscaler knows.
type Timeline struct {
	From   time.Time  `json:"from"` // nothing before is known, or was asked for
	To     time.Time  `json:"to"`
	Pools  []PoolLine `json:"pools"`
	Jobs   []JobLine  `json:"jobs"`
	Events []Event    `json:"events"` // oldest first
}

// PoolLine is the capacity of a node pool over time, in slots for elastic jobs.
type PoolLine struct {
	Pool     string    `json:"pool"`
	Capacity []SlotsAt `json:"capacity"`
}

// JobLine is the number of slots of a job over time. The line without a job is the sum of
// the jobs that the caller may not read.
type JobLine struct {
	identity.JobKey
	Pool  string    `json:"pool"`
	Slots []SlotsAt `json:"slots"`
}

// SlotsAt is a number of slots from a time on. Its JSON is a pair of Unix seconds and slots.
type SlotsAt struct {
	At    time.Time
	Slots int
}

// MarshalJSON implements json.Marshaler.
func (s SlotsAt) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]float64{float64(s.At.UnixMilli()) / 1000, float64(s.Slots)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *SlotsAt) UnmarshalJSON(text []byte) error {
	var pair [2]float64
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	s.At, s.Slots = time.UnixMilli(int64(pair[0]*1000)).UTC(), int(pair[1])
	return nil
}

// Series is the answer to GET /v1/series: the reports of a job's training that this
// autoscaler received. The lists of numbers have the same length.
type Series struct {
	Time    []float64    `json:"time"` // Unix seconds
	Size    []int        `json:"size"` // slots in the ring
	Step    []float64    `json:"step"`
	Samples []float64    `json:"samples,omitempty"` // absent if the script does not report them
	Loss    []*float64   `json:"loss,omitempty"`    // likewise; null is unknown
	Resizes []RingResize `json:"resizes"`           // oldest first
}

// RingResize is a change of the ring.
type RingResize struct {
	Time    time.Time `json:"time"`
	From    int       `json:"from"`
	To      int       `json:"to"`
	Cause   string    `json:"cause"`             // resize or failure
	Seconds *float64  `json:"seconds,omitempty"` // without training; absent: unknown
	Lost    *float64  `json:"lost,omitempty"`    // repeated steps; absent: unknown
}

// JobDetail is the part of Job that GET /v1/status does not contain.
type JobDetail struct {
	Training    *Training       `json:"training,omitempty"` // absent if it has never reported
	Curve       []CurvePoint    `json:"curve,omitempty"`
	Allocations []JobAllocation `json:"allocations,omitempty"` // that hold slots
}

// Training is what a job's training last reported about itself.
type Training struct {
	Phase   string    `json:"phase,omitempty"` // waiting, training, resizing or finished
	Hold    string    `json:"hold,omitempty"`  // why no new ring may form now
	Heard   time.Time `json:"heard"`           // when it last answered
	Stepped time.Time `json:"stepped"`         // when it was last seen to have made a step

	Stall *Stall `json:"stall,omitempty"` // the last one; absent if there was none

	Ranks map[string][]int `json:"-"` // by allocation
}

// Stall states that the ring of a job has made no step for too long, as the job's training
// reports it. The ring may have gone on since.
type Stall struct {
	Time    time.Time `json:"time,omitzero"` // when it was noticed; absent: unknown
	Size    int       `json:"size"`          // slots in the ring
	Seconds float64   `json:"seconds"`       // without a step at that time

	// Stacks is what the ranks did before stall_timeout broke the ring. It is absent if that is
	// unknown, or if the ring was not broken.
	Stacks *stacks.Summary `json:"stacks,omitempty"`
}

// CurvePoint is the time of a step at one size.
type CurvePoint struct {
	Size     int     `json:"size"` // workers
	StepTime float64 `json:"step_time"`
	Measured bool    `json:"measured,omitempty"` // else it is what the autoscaler expects
}

// JobAllocation is an allocation of a job that holds slots.
type JobAllocation struct {
	ID      string    `json:"id"`
	Group   string    `json:"group"`
	Node    string    `json:"node"` // name
	Slots   int       `json:"slots"`
	Devices []string  `json:"devices,omitempty"` // ids
	Sick    []string  `json:"sick,omitempty"`    // of these, unhealthy ones
	Ranks   []int     `json:"ranks,omitempty"`   // absent if it is not in the ring, or unknown
	Ending  bool      `json:"ending,omitempty"`  // Nomad is stopping it
	Created time.Time `json:"created"`
}

// Node is a node in the answer to GET /v1/nodes.
type Node struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Pool     string   `json:"pool"`
	Class    string   `json:"class,omitempty"`
	Path     []string `json:"path,omitempty"` // its values of the levels of its pool's topology, outermost first
	State    string   `json:"state"`
	Slots    int      `json:"slots"`              // including those of unhealthy devices
	Sick     int      `json:"sick,omitempty"`     // unhealthy devices
	Problems []string `json:"problems,omitempty"` // of devices; for callers who may read everything
	Held     []Held   `json:"held"`
}

// Held describes the slots of one allocation on a node. The job is absent if the caller may
// not read it.
type Held struct {
	*identity.JobKey
	Alloc   string `json:"alloc,omitempty"`
	Slots   int    `json:"slots"`
	Elastic bool   `json:"elastic,omitempty"`
	Ending  bool   `json:"ending,omitempty"`
}
