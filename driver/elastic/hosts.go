// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"math"
	"time"
)

type slot struct {
	state      SlotState
	inc        int
	assign     Assignment // what a Starting or Arrived process was started for
	gen        uint64     // last ring it was let into
	since      uint64     // generation since which it holds the state, 0 when it does not
	up         bool       // finished the rendezvous of its ring
	notifiable bool
	leaving    bool // its host does not offer it any more
	stopping   bool // told to stop
	restage    bool // and to be started again for another place
	standIn    bool // helps the others through the rendezvous; see Start
	admitted   bool // taken into the present round of newcomers
	started    time.Time
	failures   int
	failed     time.Time // time of the last failure
	retry      time.Time // not to be started before
}

// fail counts a failure.
func (s *slot) fail(now time.Time) {
	s.failures = Forgive(s.failures, now.Sub(s.failed)) + 1
	s.failed = now
}

type host struct {
	id        HostID
	group     string
	index     int
	slots     []slot
	known     bool // has registered; else it stands in for a host of an adopted ring
	leaving   bool
	failed    bool   // to be given back to Nomad
	why       string // reason of failed
	deadline  time.Time
	dismissed bool
}

// staying says whether the host may hold slots of a ring to come.
func (h *host) staying() bool { return !h.leaving && !h.failed }

// age is the lowest generation since which one of the host's slots holds the
// state.
func (h *host) age() uint64 {
	age := uint64(math.MaxUint64)
	for i := range h.slots {
		if s := &h.slots[i]; s.since > 0 && s.state != Down && !s.stopping {
			age = min(age, s.since)
		}
	}
	return age
}
