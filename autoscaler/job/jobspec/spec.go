// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// Spec is one job's request to the autoscaler, including all defaults.
type Spec struct {
	// Groups holds the elastic groups in the order of the job or, if they are in a ratio, of
	// its gang. There is at least one.
	Groups []Group
	// Ratio is the number of workers of each group in one unit, if the groups are in a
	// ratio. All totals below are then multiples of its sum.
	Ratio []int

	Min       int // workers of all groups while running, at least 1
	Max       int // workers of all groups
	Preferred int
	// Spare is how many workers more than the job's size wait outside the ring, ready to
	// replace a lost one, as long as no one needs their slots. Max leaves room for them
	// below the largest count that Nomad accepts.
	Spare int
	// Lendable states that the job may have a spare that it did not ask for: it says nothing
	// about spares, and is written so that it could have some.
	Lendable bool
	Sizes    sizes.Set // allowed totals between Min and Max

	Weight   float64
	Priority int // 1 to 100, as in Nomad
	Queue    string
	// Kind names a set of jobs in one namespace that scale alike, such as runs of one
	// training.
	Kind string

	// Deadline is the wanted time of completion. Alternatively, DeadlineAfter is the
	// wanted duration from submission to completion. Zero is none. (Each scale changes
	// the submit time in Nomad, so the caller must remember the first one.)
	Deadline      time.Time
	DeadlineAfter time.Duration
	// TotalWork is the length of the training in global steps; 0 is unknown.
	TotalWork float64

	// Locality is how important it is that workers are close together. Level defines
	// close, as a level of the node pool's topology; "" is any level.
	Locality Locality
	Level    string

	// Preemptible is true if the job may be scaled to 0 after its start.
	Preemptible bool
	// CanWait is true if every group may be scaled to 0, so that the job can wait in the
	// queue.
	CanWait bool
}

// Locality is how important it is to a job that its workers are close together.
type Locality string

// The localities. They only matter in node pools with a topology.
const (
	Blind   Locality = "none"    // anywhere with room
	Prefer  Locality = "prefer"  // close together if there is room for that; the default
	Require Locality = "require" // within one domain of Spec.Level, or not at all
)

var localities = []Locality{Blind, Prefer, Require}

// Group is one elastic task group.
type Group struct {
	Name string
	Min  int // smallest count Nomad accepts (scaling.min)
	Max  int // largest count Nomad accepts (scaling.max)

	// Device is the device name that a worker asks for ("nvidia/gpu"), or "" for none.
	// Devices is the number of devices of one worker.
	Device  string
	Devices int

	// Slots is the number of slots of one worker in a ring: the slots that the driver's
	// task configures, else its devices, else 1.
	Slots int

	CPU    int // MHz of one worker
	Cores  int // reserved cores of one worker
	Memory int // MiB of one worker

	// Service is the first service of the group with the nomad provider, or "" for none.
	// Horovod tasks of the Kolo driver report their progress there.
	Service string
}

// Holder returns the first group that requests devices, or the first group if none does. In a
// gang, some groups may request none.
func (s *Spec) Holder() *Group {
	for i := range s.Groups {
		if s.Groups[i].Device != "" {
			return &s.Groups[i]
		}
	}
	return &s.Groups[0]
}

// DeadlineOf returns the wanted time of completion of a job submitted at the given time,
// or the zero time if it has no deadline.
func (s *Spec) DeadlineOf(submitted time.Time) time.Time {
	if s.DeadlineAfter > 0 {
		return submitted.Add(s.DeadlineAfter)
	}
	return s.Deadline
}
