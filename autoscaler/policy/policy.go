// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"context"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Policy decides how many workers each job gets. Implementations are pure:
// the same Snapshot gives the same Decision, with no I/O, no clock and no
// randomness beyond Snapshot.Seed.
type Policy interface {
	// Name is the word users write in configuration, such as "afs-l".
	Name() string

	// Allocate returns a count for every job of the snapshot, in its order. The
	// decision keeps to the rules of Validate, unless Snapshot.Context has ended: then
	// it is void, and no one waits for it.
	Allocate(s *Snapshot) Decision
}

// Snapshot is all that a policy may know. Jobs are ordered by submit time,
// ties by ID. Times are seconds on one clock (Unix time live, 0 at the start
// of a simulated trace).
type Snapshot struct {
	Now  float64
	Seed uint64

	// Nodes is the capacity that elastic jobs may use: what other workloads
	// hold is already taken off.
	Nodes []Node

	Jobs []Job

	// Fixed is what jobs hold that the policy may not decide about, such as paused ones.
	// It is no part of Nodes, and counts for their queues.
	Fixed []Fixed

	// ResizeCost is how many seconds of training one resize costs a job:
	// measured gaps where there are some, else the configured value.
	ResizeCost float64

	// Changed is set when the set of jobs, a bound, the capacity or the shape of
	// a curve changed since the last decision. Policies that re-plan only on
	// events repeat their last plan when it is false.
	Changed bool

	// State is what this policy returned as Decision.State last time, or nil.
	// It survives restarts of the autoscaler.
	State []byte

	// Context ends once no one waits for the decision. nil is one that never
	// does. It is no input of a decision.
	Context context.Context `json:"-"`
}

// Node is a machine, or one device group of a machine.
type Node struct {
	ID   string
	Type string // GPU type; "" where the cluster has only one
	GPUs int    // usable by elastic jobs, busy ones included
	Free int    // of those, not held by any job now
}

// Fixed is a number of slots that jobs of a namespace hold in a queue.
type Fixed struct {
	Queue, Namespace string
	Slots            int
}

// Job is one elastic job, waiting or running.
type Job struct {
	ID        string
	Namespace string
	// Queue is the operator's queue that the job is in; "" is none. A pool that is
	// divided between queues is divided before a policy sees the jobs of one.
	Queue string

	Tenant   string // that quotas and fairness count by: a queue that the operator wrote, else the namespace
	Type     string // GPU type it needs; "" is any
	Held     string // GPU type its workers hold now; "" when none or not known
	Weight   float64
	Priority int

	Submit     float64 // time of arrival
	FirstStart float64 // time of its first worker, 0 when it never ran
	LastChange float64 // time of the last change of Count
	Deadline   float64 // wanted time of completion, 0 is none

	Min, Max  int       // workers while running; 1 <= Min <= Max
	Preferred int       // what the user would ask for on a fixed-size cluster
	Sizes     sizes.Set // allowed sizes between Min and Max

	// PerWorker is how many GPUs one worker holds, 1 when 0.
	PerWorker int

	Count       int     // workers now
	Preemptible bool    // may go back to 0 after its start
	Resizes     int     // resizes since its start
	Attained    float64 // GPU-seconds received
	RunTime     float64 // seconds with Count > 0

	// Curve is what is known of the step time by size.
	Curve speedup.Curve

	// Remaining is declared or estimated remaining work in global steps; 0
	// is unknown.
	Remaining float64

	// Done is how many global steps were made.
	Done float64
}

// Decision is the wanted count of each job, in the order of Snapshot.Jobs.
type Decision struct {
	Allocations []Allocation
	// State is handed back in the next Snapshot. It is bounded: policies keep
	// nothing there about jobs that are gone.
	State []byte
	// RequeueAt asks for another decision at this time even if nothing changes
	// (at the end of a time slice, for instance); 0 is never.
	RequeueAt float64
}

// Allocation is the count for one job and a short reason that a user can
// read: "grew 2→4: gains 1.7 steps/s, more than any other job would".
type Allocation struct {
	Job    string
	Count  int
	Reason string

	// Reclaimed is set where a job shrinks because its queue gives slots back that it
	// borrowed. They go back at once, however lately the job was changed.
	Reclaimed bool

	// Type is the GPU type that the count was taken from. It adds to
	// Job.Type only where a job takes any type and the cluster has several.
	Type string
}
