// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package waiting lists all reasons why a job may wait. Policies, planner and reports share
// this list.
package waiting

// Reason states in one word why a job waits. docs/reference/api.md explains each reason and
// its remedy.
type Reason string

// Reasons of queues and policies.
const (
	OverLimit         Reason = "over-limit"          // a limit of its queue
	WaitsForGuarantee Reason = "waits-for-guarantee" // it cannot be suspended, and its minimum would take slots that others are guaranteed
	Reservation       Reason = "reservation"         // the same for slots that others have reserved for later
	Budget            Reason = "budget"              // its queue has used what it may in this period
	InQueue           Reason = "in-queue"            // the policy serves other jobs first
)

// Reasons of the cluster.
const (
	NoRoom     Reason = "no-room"    // its minimum is more than its queue or its pool may use now
	Fragmented Reason = "fragmented" // the pool has enough free slots, but not where its workers fit
	Constraint Reason = "constraint" // the nodes that it may use are too few for its minimum next to jobs that are not elastic
	NeverFits  Reason = "never-fits" // the nodes that it may use are too few for its minimum, even if they were empty
	Settling   Reason = "settling"   // a change is under way, after which it starts
)

// Reasons of users.
const (
	Paused  Reason = "paused"  // by a command
	Held    Reason = "held"    // Kolo does not change its count for now: it failed, or the count was set by hand
	Invalid Reason = "invalid" // what it requests contradicts itself
)

// Unknown is the reason of a job whose policy names none.
const Unknown Reason = "unknown"

// All returns the reasons in the order of the documentation.
func All() []Reason {
	return []Reason{OverLimit, WaitsForGuarantee, Reservation, Budget, InQueue, NoRoom, Fragmented, Constraint, NeverFits, Settling, Paused, Held, Invalid, Unknown}
}
