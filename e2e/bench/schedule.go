// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"math/rand/v2"
	"time"
)

// A cause is a kind of event in a run, and so a reason why slots do not train.
type cause string

// The kinds of disturbances in a schedule.
const (
	rankKilled cause = "a rank is killed"
	leadKilled cause = "rank 0 is killed"
	nodeLost   cause = "a node is lost"
	drained    cause = "a node is drained"
	halved     cause = "half of the slots leave"
	slowStart  cause = "a slow newcomer"
	hang       cause = "a rank hangs"
	straggler  cause = "a straggler"
)

// undisturbed is the cause of time that is lost before any event.
const undisturbed cause = "none"

// deck contains each kind of disturbance once.
var deck = []cause{rankKilled, leadKilled, nodeLost, drained, halved, slowStart, hang, straggler}

// The durations of disturbances.
const (
	nodeAway  = 30 * time.Second // until a lost node is replaced
	drainTime = 20 * time.Second // until drained slots, or half of the slots, are back
	slowFor   = 20 * time.Second // a straggler
	// patience is the time after which an operator kills a rank that hangs.
	patience = 60 * time.Second
	// between is the least time between the end of a disturbance and the next one.
	between = 5 * time.Second
)

// A disturbance is one event of a schedule, at a time after the run's first step.
type disturbance struct {
	at    time.Duration
	cause cause
}

// lasts returns the time until all actions for this cause have been taken.
func (c cause) lasts() time.Duration {
	switch c {
	case nodeLost:
		return nodeAway
	case drained, halved, slowStart:
		return drainTime
	case straggler:
		return slowFor
	case hang: // or the next event could end it, and it would count as survived
		return patience
	default:
		return 0
	}
}

// newSchedule returns the disturbances of a run of the given length. The times between them
// are exponential with the mean every. Kinds come from a shuffled deck, so each kind comes
// once before any comes again. The same seed gives the same schedule. If every is 0, there
// are no disturbances.
func newSchedule(seed uint64, every, length time.Duration) []disturbance {
	if every == 0 {
		return nil
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	var out []disturbance
	var order []int
	at, free := time.Duration(0), time.Duration(0)
	for {
		at = max(at+time.Duration(rnd.ExpFloat64()*float64(every)), free)
		if len(order) == 0 {
			order = rnd.Perm(len(deck))
		}
		kind := deck[order[0]]
		order = order[1:]
		// Each disturbance is over before the run ends, so that its whole cost is measured.
		if at+kind.lasts()+between > length {
			return out
		}
		out = append(out, disturbance{at, kind})
		free = at + kind.lasts() + between
	}
}
