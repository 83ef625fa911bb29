// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"strconv"
	"testing"
	"time"
)

// The ring after the first intrusion forms at once. Each further intrusion makes the
// next ring wait longer, up to a bound.
func TestAStrangerBreaksItsRing(t *testing.T) {
	s := pair(t, elasticPair)
	generation := uint64(1)
	for _, pause := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		s.did = nil
		s.event(Intruded{Generation: generation})
		s.expect("break " + number(generation))
		s.waiting("a:0", "b:0")
		if pause > 0 {
			s.expect()
			s.wait(pause - time.Millisecond)
			s.expect()
			s.wait(time.Millisecond)
		}
		generation++
		s.expect("form " + number(generation) + ": a:0 b:0")
		s.up("a:0", "b:0")
	}
	s.wait(24 * time.Hour) // they are forgiven
	s.did = nil
	s.event(Intruded{Generation: generation})
	s.waiting("a:0", "b:0")
	s.expect("break "+number(generation), "form "+number(generation+1)+": a:0 b:0")
}

// A change is pending when an intruder is found. A member that hangs in the broken ring is
// not waiting for a commit.
func TestAnIntrusionEndsTheTimeToTheCommit(t *testing.T) {
	s := newScript(t, Options{NP: 2, MinNP: 1, CommitTimeout: 5 * time.Minute})
	s.join("a", 0, 1)
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.arrive("a:0", "b:0")
	s.up("a:0", "b:0")
	s.event(Trained{1})
	s.event(HostLeaving{Host: "b", Within: time.Minute})
	s.did = nil
	s.event(Intruded{Generation: 1})
	s.waiting("b:0")
	s.event(SlotIdle{s.proc("a:0"), 1, true})
	s.expect("break 1", "stop a:0")
}

// A verdict on an ended ring breaks no other.
func TestALateIntrusionIsIgnored(t *testing.T) {
	s := pair(t, elasticPair)
	s.did = nil
	s.event(Intruded{Generation: 7})
	s.waiting("a:0") // it was asked to
	s.did = nil
	s.event(Intruded{Generation: 1})
	s.expect()
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }
