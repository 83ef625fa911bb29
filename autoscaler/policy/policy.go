// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"context"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
	"github.com/kolo-nomad/kolo/autoscaler/policy/length"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// Policy decides how many workers each job gets. Implementations are pure:
// the same Snapshot gives the same Decision, with no I/O, no clock and no
// randomness beyond Snapshot.Seed.
type Policy interface {
	// Name returns the word that users write in configuration, such as "afs-l".
	Name() string

	// Allocate returns a count for every job of the snapshot, in the snapshot's order.
	// The decision obeys the rules of Validate. Once Snapshot.Context has ended, the
	// decision is void and no one waits for it. After Allocate has returned,
	// the memory of the snapshot may be used again.
	Allocate(s *Snapshot) Decision
}

// Snapshot holds everything a policy may know. Jobs are ordered by submit time, ties
// by ID. Times are seconds on one clock: Unix time in a live cluster, 0 at the start
// of a simulated trace.
type Snapshot struct {
	Now  float64
	Seed uint64

	// Nodes is the capacity that elastic jobs may use, without the GPUs that other
	// workloads hold.
	Nodes []Node

	Jobs []Job

	// Fixed is what jobs hold that the policy may not decide about, such as paused ones.
	// It is no part of Nodes, and counts for their queues.
	Fixed []Fixed

	// Past holds the past of queues, by queue.Layout.Key. Only the division between queues
	// uses it.
	Past map[string]queue.Past

	// ResizeCost is how many seconds of training one resize costs a job: as measured,
	// or the configured value if there is no measurement.
	ResizeCost float64

	// Changed is true if the set of jobs, a bound, the capacity or the shape of a curve
	// has changed since the last decision. If it is false, policies that plan only on
	// events repeat their last plan.
	Changed bool

	// First is true if no decision of this policy is in force, for example under a new
	// leader. The reasons of earlier decisions are not known then. Changed is also true.
	First bool

	// State is the Decision.State that this policy returned last time, or nil. It
	// survives restarts of the autoscaler.
	State []byte

	// Context ends once no one waits for the decision; nil never ends. It must not
	// influence the decision.
	Context context.Context `json:"-"`
}

// Node is a machine, or one device group of a machine.
type Node struct {
	ID   string
	Type string // GPU type; "" where the cluster has only one
	GPUs int    // usable by elastic jobs, busy ones included
	Free int    // the part of GPUs that no job holds now
}

// Fixed is a number of slots in a queue that are held by a namespace and that the policy
// cannot change.
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

	Tenant   string // unit of quotas and fairness: a queue that the operator configured, else the namespace
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

	// PerWorker is the number of GPUs of one worker; 0 means 1.
	PerWorker int

	Count       int     // workers now
	Preemptible bool    // may go back to 0 after its start
	Resizes     int     // resizes since its start
	Attained    float64 // GPU-seconds received
	RunTime     float64 // seconds with Count > 0
	Pardoned    float64 // of these, seconds that no longer count for max_time of its queue
	Permanent   bool    // it cannot have 0 workers: its groups have a minimum in Nomad

	// Curve holds what is known of the step time by size.
	Curve speedup.Curve

	// Adapts is true if the job adapts its batch size to its number of workers. A step is then
	// a unit of progress that does not depend on the batch size.
	Adapts bool

	// Remaining is the declared or estimated remaining work in global steps; 0 is
	// unknown.
	Remaining float64

	// Done is how many global steps the job has made.
	Done float64

	// Alike describes the services of similar jobs that have completed.
	Alike length.Sample
}

// Decision holds the wanted count of each job, in the order of Snapshot.Jobs.
type Decision struct {
	Allocations []Allocation
	// State is passed to the policy in the next Snapshot. Its size must stay bounded:
	// policies keep nothing there about jobs that have ended.
	State []byte
	// RequeueAt requests another decision at this time even if nothing changes, such
	// as at the end of a time slice; 0 is never.
	RequeueAt float64
}

// Allocation is the count for one job and a short reason that a user can
// read: "grew 2→4: gains 1.7 steps/s, more than any other job would".
type Allocation struct {
	Job    string
	Count  int
	Reason string

	// Wait is why a job has no workers; empty if it has some, or the policy does not say.
	Wait waiting.Reason

	// Repeats is set if the count is that of an earlier decision and the policy does not
	// remember why. The reason of that decision still holds.
	Repeats bool

	// Reclaimed is set where a job shrinks because its queue gives slots back that it
	// borrowed. They go back at once, however lately the job was changed.
	Reclaimed bool

	// Stops states that the job has run for the longest time that its queue allows. It
	// loses its workers, even if its count was changed a short time ago and even if it is
	// not preemptible.
	Stops bool

	// Type is the GPU type that the workers are to use. It matters only for a job that
	// takes any type, in a cluster with several.
	Type string
}
