// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package planner

import (
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/plan/migrate"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
)

// NodeState states whether a node takes new workers, and whether it keeps the workers that
// it has.
type NodeState int

// States of nodes.
const (
	Ready      NodeState = iota // takes new workers
	Ineligible                  // keeps its workers, takes none
	Draining                    // draining, down or disconnected: Nomad will place its workers elsewhere
)

// Node is a machine. All amounts are for elastic jobs: amounts that other workloads hold
// are already subtracted. Negative amounts are allowed and count as 0.
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

// Worker is an allocation that has not ended. Its place is given by indexes into
// Cluster.Nodes and Node.Bins. A node of -1 is an unknown node, a bin of -1 an unknown bin
// of its node.
type Worker struct {
	placement.Place
	Ending bool // Nomad is stopping it
}

// Class is a set of places, shared by groups with the same needs, so that ten thousand
// groups do not need ten thousand lists.
type Class struct {
	Places []placement.Place // those of one node are adjacent
}

// Group is one elastic group of a job.
type Group struct {
	Name     string
	Count    int            // as written in the job, without Spare
	Spare    int            // how much larger the written count is, for spares
	Min, Max int            // bounds of Count that Nomad accepts, with the present Spare
	Need     placement.Need // of one worker
	Class    *Class         // where its workers may go
	// Path is the domain that all of Class is in, at each level of the pool's topology. It
	// is empty if Class is in several domains of the outermost level.
	Path []int

	// Live holds the allocations that have not ended, including those being stopped.
	Live []Worker
	// Spares holds the allocations that count as spares. The driver decides which of the
	// job's allocations these are.
	Spares []Worker
	// Spread forbids two workers of the group to share a node.
	Spread bool
	// GrowAfter is the time before which the group does not grow. It is set when a
	// worker found no place here.
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
	// Spare is how many spares the job is to have as long as no one needs their slots. With
	// Lent, they are among those that the pool lends (Cluster.Lends).
	Spare int
	Lent  bool
	// SpareGiven is when the job last gave a spare back. It gets none for PlacementRetry.
	SpareGiven time.Time
	// SparesSince is since when spares wait for a place; zero when none does.
	SparesSince time.Time
	Started     bool // had a worker once
	Incomplete  bool // never had the workers of its minimum

	// Ratio is the number of workers of each group in one unit, if the groups start and
	// scale together; nil if they do not. Min, Max and Sizes are then multiples of its sum.
	Ratio []int

	Stopped bool // by its user; HoldReason is set, too

	// Reasons why the job does not change, for messages; "" means none.
	Frozen          string // a worker completed, or the job ended: never again
	HoldReason      string // stopped, paused, invalid, deployment running: while it lasts
	UnhealthyReason string // a worker sits on an unhealthy node: while it lasts

	// NeverFits is why the nodes could not hold the minimum of a job without workers, even
	// if they were empty; "" if they could. Only other nodes change that.
	NeverFits string

	LastChange   time.Time // of any count, by anyone
	PendingSince time.Time // since when workers wait for a place; zero when none does
	ManualUntil  time.Time // a count that a user set by hand stays until then

	// Locality is nil if it does not matter which groups hold the workers, as in a
	// pool without a topology.
	Locality *Locality
	// Mobility holds what is known about moving the job's workers; nil if they
	// never move.
	Mobility *Mobility
	// Moving is a move of its workers that has begun, or nil.
	Moving *Moving

	// KeepUntil is the time at which Nomad would remove a job without workers
	// (garbage collection); zero if it would not.
	KeepUntil time.Time
}

// Locality states how close together the workers of a job have to be.
type Locality struct {
	placement.Rule
	Level string // the level of Rule.Within, for messages
	// Faster compares the step times of two placements by workers in each group, as far
	// as they are known; nil means that none are.
	Faster placement.Ratio
}

// Mobility holds the facts by which the planner decides whether a job's workers move
// between its groups.
type Mobility struct {
	Remaining float64 // seconds that it is expected to train on as it is placed
	Gap       float64 // seconds in which a change of its ring stops it
	// Slowdown returns the time of a step with the given workers in each group, as a
	// multiple of the current step time, or 1 if unknown. nil means that it is always 1.
	Slowdown func(counts []int) float64
	After    time.Time // no move begins before
}

// Count returns the number of workers that the job asks Nomad for.
func (job *Job) Count() int {
	n := 0
	for i := range job.Groups {
		n += job.Groups[i].Count
	}
	return n
}

// Alive returns the number of allocations that have not ended.
func (job *Job) Alive() int {
	n := 0
	for i := range job.Groups {
		n += len(job.Groups[i].Live)
	}
	return n
}

// Cluster holds all nodes and elastic jobs at one moment.
type Cluster struct {
	Nodes []Node
	Jobs  []Job
	// Reserved holds the slots that must stay free, by node pool, because jobs that are
	// not elastic wait for them.
	Reserved map[string]int
	// Waiting holds further slots that such jobs could have if there were no spares.
	Waiting map[string]int
	// Lends holds the slots that each node pool lends to jobs as spares.
	Lends map[string]int
	// Packed holds the node pools that prefer to empty nodes.
	Packed map[string]bool
}

// Want is the count that the policy wants for one job.
type Want struct {
	Count  int
	Reason string
	Wait   waiting.Reason // why the job has no workers; "" if it has some, or it is not known
	// Reclaimed is set if the job gives back slots that its queue borrowed. It does so
	// even during its hold time.
	Reclaimed bool
	// Stops is set if the job has run for as long as it may. It then gets no workers, even
	// if it must not be suspended.
	Stops bool
}

// Options are the planner's settings.
type Options struct {
	Hold             time.Duration // time after a change in which a job does not change again
	PlacementTimeout time.Duration // workers not placed for this long are relocated or rolled back
	PlacementRetry   time.Duration // and their group does not grow for this long
	GCProtection     time.Duration // a job without workers is protected this long before Nomad would remove it
	MoveTimeout      time.Duration // a move whose new workers do not train for this long is undone
	MaxWrites        int           // actions per plan, 0 is no limit
	Migrate          migrate.Options
}

// DefaultOptions returns options for training jobs that take minutes or longer.
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
	Repair   Cause = "repair"   // of a gang that is not whole
	Spare    Cause = "spare"    // more or fewer spares; the size stays
	Keep     Cause = "keep"     // no change: protects a job without workers from garbage collection
)

// Action holds the writes for one job, which belong together. Nomad carries out the first
// step only if the job still has the modify index Index. Each later step requires the index
// that the previous step returned.
type Action struct {
	Job      identity.JobKey
	Index    uint64
	Cause    Cause
	Reason   string
	From, To int // total workers
	Steps    []Step
	Unplaced []string // groups in which workers found no place
	// Spares holds the spares of the groups that Steps change; nil if the job has none and is
	// to have none.
	Spares map[string]int
	Moving *Moving // the move whose first half this action is
}

// Step is one group's new count, with its spares.
type Step struct {
	Group    string
	From, To int
}

// Wait reports a job that does not yet have the count that the policy wants.
type Wait struct {
	Job   identity.JobKey
	Count int // now
	Want  int
	// Reason is set for a job that has no workers.
	Reason waiting.Reason
	Why    string
	Until  time.Time // zero when only an event can end it
	// Shortfall is how many of the wanted workers find no room, if that is why the job
	// waits.
	Shortfall int
}

// Plan holds the actions to take now, and the jobs that wait.
type Plan struct {
	Actions []Action
	Waits   []Wait
	// RequeueAt is the time from which a new plan may differ even if nothing changes;
	// zero means never.
	RequeueAt time.Time
}
