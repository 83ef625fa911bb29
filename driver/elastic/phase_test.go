// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"
)

// rejoin registers a host again whose processes, one per slot, still take part
// in the ring.
func (s *script) rejoin(host string, index int, ring Ring) {
	info := HostInfo{ID: HostID(host), Group: "g", Index: index, Ring: &ring}
	for _, mem := range ring.Members {
		if mem.Proc.Slot.Host == info.ID {
			info.Slots = append(info.Slots, SlotReport{State: InRing, Incarnation: mem.Proc.Incarnation,
				Generation: ring.Generation, Since: 1, Up: true, Notifiable: true})
		}
	}
	s.event(HostJoined{info})
}

// A stalled ring dissolves in stallPatience. The ring that replaces it has not
// stalled, and gives its members BarrierTimeout.
func TestAnAdoptedRingDoesNotInheritAStall(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(Stalled{Generation: 1})
	next := s.m.Ring().clone()
	next.Generation, next.Term = 2, 2 // formed by another leader
	s.rejoin("a", 0, next)
	s.rejoin("b", 1, next)
	s.event(HostLeaving{Host: "b"})
	s.expect("break 1", "form 2: a:0 b:0", "notify a:0")
	s.waiting("a:0")
	s.wait(8 * time.Second)
	s.expect()
	s.wait(time.Minute)
	s.expect("stop b:0")
}

// The time to leave a ring starts again when its last member is back: it may
// hold the only copy of the state.
func TestASurvivorThatIsBackGetsTimeToLeaveItsRing(t *testing.T) {
	s := newScript(t, Options{NP: 1, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 1)
	s.wait(time.Second)
	s.arrive("a:0")
	s.up("a:0")
	ring := *s.m.Ring()
	s.event(HostLost{"a"})
	s.did = nil
	s.wait(2 * time.Minute)
	s.rejoin("a", 0, ring)
	s.expect("break 1")
	s.waiting("a:0")
	s.expect("form 2: a:0")
}
