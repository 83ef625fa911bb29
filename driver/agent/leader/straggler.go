// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

const (
	// lastWindow is the number of recent steps in which the rank that arrived last counts, and
	// lastEnough the number of them from which on a rank may be a straggler.
	lastWindow, lastEnough = stall.Window, stall.Enough
	// A straggler arrives last in the share lastShare of these steps. Once it is one, lastKept
	// is enough, so that the report does not change with each step. One of two equal ranks
	// arrives last in half of the steps.
	lastShare, lastKept = 0.75, 0.5
	// lastBehind is the part of a step by which a straggler is behind the others at least.
	lastBehind = 0.1
	// lastFresh is the time, and lastFreshSteps the number of steps, after which a ring without
	// a report has no straggler.
	lastFresh, lastFreshSteps = time.Minute, 5
)

// lastRanks remembers which rank of the current ring arrived last in recent steps. The zero
// value is for a ring that has made no step.
type lastRanks struct {
	recent []wire.Last // at most lastWindow, the newest last
	at     time.Time   // of the last report
	named  *int        // the straggler that was last returned
}

// add adds the steps of a report. Ranks that the ring does not have are left out.
func (r *lastRanks) add(last []wire.Last, size int, now time.Time) {
	for _, l := range last {
		if l.Rank < size {
			r.recent, r.at = append(r.recent, l), now
		}
	}
	r.recent = slices.Clone(r.recent[max(0, len(r.recent)-lastWindow):])
}

// straggler returns the rank that makes the others wait in most of the recent steps, or nil.
// step is the usual time of a step in seconds, 0 if unknown.
func (r *lastRanks) straggler(step float64, now time.Time) *wire.Straggler {
	named := r.named
	r.named = nil
	if len(r.recent) < lastEnough || now.Sub(r.at).Seconds() > max(lastFresh.Seconds(), lastFreshSteps*step) {
		return nil
	}
	count := map[int]int{}
	for _, l := range r.recent {
		count[l.Rank]++
	}
	for rank, n := range count {
		share := float64(n) / float64(len(r.recent))
		if share < lastShare && (named == nil || *named != rank || share < lastKept) {
			continue
		}
		var behind []float64
		for _, l := range r.recent {
			if l.Rank == rank {
				behind = append(behind, l.Behind)
			}
		}
		slices.Sort(behind)
		if median := behind[len(behind)/2]; median > 0 && median >= lastBehind*step {
			r.named = &rank
			return &wire.Straggler{Rank: rank, Share: share, Behind: median, Steps: len(r.recent)}
		}
	}
	return nil
}

// stragglerNow returns the straggler of the ring, with its place, or nil.
func (l *Leader) stragglerNow(ranks []wire.Rank, now time.Time) *wire.Straggler {
	s := l.last.straggler(l.stats.stepSeconds()[l.stats.size].Mean, now)
	if s == nil || s.Rank >= len(ranks) {
		return nil
	}
	s.AllocID, s.Host = ranks[s.Rank].AllocID, ranks[s.Rank].Host
	return s
}
