// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// Spec is what one job asks of the autoscaler, with all defaults filled in.
type Spec struct {
	// Groups are the elastic groups, in the order of the job. There is at
	// least one.
	Groups []Group

	Min       int // workers of all groups while running, at least 1
	Max       int // workers of all groups
	Preferred int
	Sizes     sizes.Set // allowed totals between Min and Max

	Weight   float64
	Priority int // 1 to 100, as in Nomad
	Queue    string
	// Kind names jobs of one namespace that scale alike, being runs of one
	// training.
	Kind string

	// Deadline is the wanted time of completion, or DeadlineAfter the time from
	// the job's submission to it; zero is none. (Each scale moves the time of
	// submission in Nomad, so the caller remembers the first.)
	Deadline      time.Time
	DeadlineAfter time.Duration
	// TotalWork is the length of the training in global steps; 0 is unknown.
	TotalWork float64

	// Locality is how much it matters that workers are close together, and Level
	// what close is, as a level of the node pool's topology; "" is any.
	Locality Locality
	Level    string

	// Preemptible jobs may go back to no workers after their start.
	Preemptible bool
	// CanWait is set where every group may be scaled to 0, so that the job can be
	// held in the queue.
	CanWait bool
}

// Locality is how much it matters to a job that its workers are close together.
type Locality string

// Localities. They matter in node pools that have a topology.
const (
	Blind   Locality = "none"    // wherever there is room
	Prefer  Locality = "prefer"  // close together where there is room for that; the default
	Require Locality = "require" // within one domain of Spec.Level, or not at all
)

var localities = []Locality{Blind, Prefer, Require}

// Group is one elastic task group.
type Group struct {
	Name string
	Min  int // smallest count Nomad accepts (scaling.min)
	Max  int // largest count Nomad accepts (scaling.max)

	// Device is the device ask of one worker ("nvidia/gpu"), "" when it asks
	// for none, and Devices how many of them one worker holds.
	Device  string
	Devices int

	// Slots is how many slots of a ring one worker has: what the driver's task
	// configures as slots, else its devices, else 1.
	Slots int

	CPU    int // MHz of one worker
	Cores  int // reserved cores of one worker
	Memory int // MiB of one worker

	// Service is the first Nomad-provided service of the group, "" for none.
	// Horovod tasks of the Kolo driver serve their progress there.
	Service string
}

// DeadlineOf returns the wanted time of completion of a job that was submitted then; zero
// is none.
func (s *Spec) DeadlineOf(submitted time.Time) time.Time {
	if s.DeadlineAfter > 0 {
		return submitted.Add(s.DeadlineAfter)
	}
	return s.Deadline
}
