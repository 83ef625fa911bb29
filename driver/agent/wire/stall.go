// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// StoppedTime is how long a process that is watched must be stopped by a signal before its
// host answers, instead of elastic.IdleTime.
const StoppedTime = time.Second

// Watch asks the hosts of a ring that makes no steps what their processes do. Hosts of an
// earlier version don't answer.
type Watch struct {
	Ring RingID `json:"ring"`
	// Number distinguishes the requests of a leader.
	Number int `json:"number"`
}

// Watched is the answer to a Watch. A host sends it after elastic.IdleTime. If a signal kept one
// of its processes stopped all the time, the host sends it earlier, after StoppedTime.
type Watched struct {
	Ring   RingID `json:"ring"`
	Number int    `json:"number"`
	// Activities are those of the host's processes in the ring; see package stall.
	Activities []Activity `json:"activities"`
}

// Activity is what one process did while it was watched.
type Activity struct {
	Proc     elastic.Proc `json:"proc"`
	Activity string       `json:"activity"`
}

// Inspect asks the hosts of a ring that is about to be broken for the stacks of its processes.
// Only hosts that have set Register.Inspects answer.
type Inspect struct {
	Ring RingID `json:"ring"`
	// Number distinguishes the requests of a leader.
	Number int `json:"number"`
	// Within is the time in seconds after which the leader does not wait for the answer.
	Within float64 `json:"within"`
}

// Inspected is the answer to an Inspect.
type Inspected struct {
	Ring   RingID `json:"ring"`
	Number int    `json:"number"`
	// Ranks has those of the host's ranks whose stacks were taken, shortened by
	// stacks.Rank.Brief.
	Ranks []stacks.Rank `json:"ranks"`
}

// Slow reports that a script has announced a slow step, or that this step is over. A host
// repeats the message after it has registered.
type Slow struct {
	Proc       elastic.Proc `json:"proc"`
	Generation uint64       `json:"generation"`
	// Reason is the script's, such as "evaluation". It is empty if this is over.
	Reason string `json:"reason,omitempty"`
}
