// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// NodeState is whether a node takes workers and keeps those it has.
type NodeState int

// States of nodes.
const (
	Ready      NodeState = iota // takes new workers
	Ineligible                  // keeps its workers, takes none
	Draining                    // draining, down or disconnected: its workers will be placed elsewhere
)

// Node is a machine. All amounts are what elastic jobs may use: what other
// workloads hold is already taken off. Negative amounts are allowed and mean
// that there is nothing.
type Node struct {
	ID        string
	Name      string
	Pool      string
	NodeClass string // Nomad's, as the node's operator named it; may be ""
	State     NodeState
	CPU       int // MHz
	Memory    int // MiB
	Bins      []Bin
}

// Bin is a device group of a node, or the node's CPU slots.
type Bin struct {
	Type  string
	Slots int
}

// Worker is an allocation that has not ended. Its place is by index into
// Cluster.Nodes and Node.Bins; a node of -1 is somewhere unknown, a bin of -1
// unknown on its node.
type Worker struct {
	placement.Place
	Ending bool // Nomad is stopping it
}

// Class is a set of places that groups with the same needs share, so that ten
// thousand groups do not hold ten thousand lists.
type Class struct {
	Places []placement.Place // those of one node follow each other
}

// Group is one elastic group of a job.
type Group struct {
	Name     string
	Count    int            // as written in the job
	Min, Max int            // what Nomad accepts
	Need     placement.Need // of one worker
	Class    *Class         // where its workers may go
	// Path is the domain that all of Class is in, at each level of the pool's
	// topology; empty where it is in several of the outermost.
	Path []int

	// Live are the allocations that have not ended, those being stopped
	// included.
	Live []Worker
	// Spread forbids two workers of the group to share a node.
	Spread bool
	// GrowAfter is set where a worker found no place here: no growth of this
	// group before.
	GrowAfter time.Time
}

// Job is one elastic job.
type Job struct {
	Key      identity.JobKey
	Pool     string
	Index    uint64 // JobModifyIndex that writes are conditional on
	Priority int
	Groups   []Group

	Min, Max    int       // total workers while running
	Sizes       sizes.Set // allowed totals
	Preemptible bool
	Started     bool // had a worker once

	Stopped bool // by its user; HoldReason is set, too

	// Reasons to leave the job alone, to be shown; "" is none.
	Frozen          string // a worker completed, or the job ended: never again
	HoldReason      string // stopped, paused, invalid, deployment running: while it lasts
	UnhealthyReason string // a worker sits on an unhealthy node: while it lasts

	LastChange   time.Time // of any count, by anyone
	PendingSince time.Time // since when workers wait for a place; zero when none does
	ManualUntil  time.Time // a count that a user set by hand stays until then

	// Locality is set where it matters which groups hold the workers: in a pool
	// with a topology, unless the job does not care.
	Locality *Locality
	// Mobility is what moving its workers gains and costs; nil where they never move.
	Mobility *Mobility
	// Moving is a move of its workers that has begun; nil for none.
	Moving *Moving

	// KeepUntil is when a job without workers would be garbage to Nomad; zero
	// when it cannot become so.
	KeepUntil time.Time
}

// Locality is how close together the workers of a job are to be.
type Locality struct {
	placement.Rule
	Level string // the one that Rule.Within keeps to, to be shown
	// Faster compares the times of steps with so many workers in each group, as far
	// as they are known; nil knows none.
	Faster placement.Ratio
}

// Mobility is what is known of a job whose workers may move between its groups.
type Mobility struct {
	Remaining float64 // seconds that it is expected to train on as it is placed
	Gap       float64 // seconds in which a change of its ring stops it
	// Slowdown is the time of a step with so many workers in each group, as a
	// multiple of that now; 1 where it is unknown. nil is 1 for all.
	Slowdown func(counts []int) float64
	After    time.Time // no move begins before
}

// Count is the number of workers the job asks Nomad for.
func (job *Job) Count() int {
	n := 0
	for i := range job.Groups {
		n += job.Groups[i].Count
	}
	return n
}

// Alive is the number of allocations that have not ended.
func (job *Job) Alive() int {
	n := 0
	for i := range job.Groups {
		n += len(job.Groups[i].Live)
	}
	return n
}

// Cluster is all that exists at one moment.
type Cluster struct {
	Nodes []Node
	Jobs  []Job
	// Reserved is slots that must stay free, by node pool: those that jobs which
	// are not elastic are waiting for.
	Reserved map[string]int
	// Packed are the node pools that prefer to empty nodes.
	Packed map[string]bool
}

// Want is what the policy wants for one job.
type Want struct {
	Count  int
	Reason string
}

// Options are the planner's settings.
type Options struct {
	Hold             time.Duration // a job is left alone for this long after a change
	PlacementTimeout time.Duration // workers not placed for this long are relocated or rolled back
	PlacementRetry   time.Duration // and their group does not grow for this long
	GCProtection     time.Duration // a parked job is protected this long before it would be collected
	MoveTimeout      time.Duration // a move whose new workers do not train for this long is undone
	MaxWrites        int           // actions per plan, 0 is no limit
	Migrate          migrate.Options
}

// DefaultOptions are right for training jobs that take minutes or longer.
func DefaultOptions() Options {
	return Options{
		Hold:             30 * time.Second,
		PlacementTimeout: 30 * time.Second,
		PlacementRetry:   2 * time.Minute,
		GCProtection:     time.Hour,
		MoveTimeout:      2 * time.Minute,
		Migrate:          migrate.DefaultOptions(),
		MaxWrites:        200,
	}
}

// Cause is why a count changes.
type Cause string

// Causes of actions.
const (
	Start    Cause = "start"    // from no workers, for the first time
	Resume   Cause = "resume"   // from no workers, again
	Grow     Cause = "grow"     // more workers
	Shrink   Cause = "shrink"   // fewer workers
	Suspend  Cause = "suspend"  // to no workers
	Rollback Cause = "rollback" // workers that found no place
	Move     Cause = "move"     // the same, to groups that have room
	Migrate  Cause = "migrate"  // half of a move of workers that train, to other groups
	Keep     Cause = "keep"     // no change: protects a parked job from garbage collection
)

// Action is one job's writes. All steps of it belong together; each is
// conditional on the index the one before it returned, the first on Index.
type Action struct {
	Job      identity.JobKey
	Index    uint64
	Cause    Cause
	Reason   string
	From, To int // total workers
	Steps    []Step
	Unplaced []string // groups in which workers found no place
	Moving   *Moving  // the move that the action is the first half of
}

// Step is one group's new count.
type Step struct {
	Group    string
	From, To int
}

// Wait is a job that has not got what the policy wants for it yet.
type Wait struct {
	Job   identity.JobKey
	Count int // now
	Want  int
	Why   string
	Until time.Time // zero when only an event can end it
	// Shortfall is how many of the workers wanted find no room, as far as that is why
	// the job waits.
	Shortfall int
}

// Plan is what to do now.
type Plan struct {
	Actions []Action
	Waits   []Wait
	// RequeueAt is when a new plan could differ even if nothing
	// changes; zero for never.
	RequeueAt time.Time
}
