// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// rejoin registers a host again whose processes, one per slot, are still in the ring.
func (s *script) rejoin(host string, index int, ring Ring) {
	info := HostInfo{ID: HostID(host), Group: "g", Index: index, Ring: &ring}
	for _, mem := range ring.Members {
		if mem.Proc.Slot.Host == info.ID {
			info.Slots = append(info.Slots, SlotReport{State: InRing, Incarnation: mem.Proc.Incarnation,
				Generation: ring.Generation, SyncedSince: 1, Up: true, Notifiable: true})
		}
	}
	s.event(HostJoined{info})
}

// A stalled ring dissolves within stallGrace. The ring that replaces it has not
// stalled, so its members have CommitTimeout.
func TestAnAdoptedRingDoesNotInheritAStall(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(Stalled{Generation: 1})
	next := s.m.Ring().clone()
	next.Generation, next.Term = 2, 2 // formed by another leader
	s.rejoin("a", 0, next)
	s.rejoin("b", 1, next)
	s.event(HostLeaving{Host: "b"})
	s.expect("form 2: a:0 b:0", "notify a:0")
	s.waiting("a:0")
	s.wait(8 * time.Second)
	s.expect()
	s.wait(10 * time.Minute)
	s.expect("stop b:0")
}

// The process that is known to be the cause of a stall is killed as soon as another has left
// the ring with the state, and it alone: the others form the next ring, which it joins again.
func TestTheCauseOfAStallIsReplacedAlone(t *testing.T) {
	stalled := func(t *testing.T, doubtful bool, causes ...string) *script {
		s := newScript(t, Options{NP: 3, MinNP: 1, Framework: torch, SlotRestarts: 0, CommitTimeout: 5 * time.Minute})
		for i, name := range []string{"a", "b", "c"} {
			s.join(name, i, 1)
		}
		s.wait(time.Second)
		s.arrive("a:0", "b:0", "c:0")
		s.up("a:0", "b:0", "c:0")
		s.event(Trained{1})
		ev := Stalled{Generation: 1, Why: "stopped by a signal", Doubtful: doubtful}
		for _, name := range causes {
			ev.Causes = append(ev.Causes, s.proc(name))
		}
		s.did, s.events = nil, nil
		s.event(ev)
		return s
	}
	t.Run("known", func(t *testing.T) {
		s := stalled(t, true, "b:0")
		s.expect() // it may be the last with the state
		s.waiting("a:0")
		s.expect("stop b:0")
		must.Eq(t, []string{"rank 1 (host b, slot 0) is killed: it is stopped by a signal, and ring 1 made no step (stall_timeout)"}, s.events)
		s.waiting("c:0")
		s.die("b:0", "signal: killed")
		s.up("a:0", "c:0")
		s.wait(time.Second)
		s.expect("form 2: a:0 c:0", "start b:0 2/3")
		s.arrive("b:0")
		s.expect("notify a:0")
		s.waiting("a:0", "c:0")
		s.expect("form 3: a:0 c:0 b:0")
	})
	t.Run("it has left", func(t *testing.T) {
		s := stalled(t, true, "b:0")
		s.waiting("b:0", "a:0", "c:0")
		s.expect("form 2: a:0 b:0 c:0")
	})
	t.Run("unknown", func(t *testing.T) {
		s := stalled(t, true)
		s.waiting("a:0", "c:0")
		s.wait(stallGrace)
		s.expect("stop b:0")
	})
	t.Run("none waits for another", func(t *testing.T) {
		s := stalled(t, true)
		s.wait(4 * time.Minute)
		s.expect() // all may evaluate
		s.waiting("a:0", "b:0", "c:0")
		s.expect("form 2: a:0 b:0 c:0")
	})
	t.Run("none waits for another, by a fixed time", func(t *testing.T) {
		s := stalled(t, false)
		s.wait(time.Minute)
		s.expect("stop a:0", "stop b:0", "stop c:0")
	})
}

// When the last member of a ring is back, its time to leave starts again, because it may
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

// A lost host returns with a process that was notified of a change before. Its ring is
// gone, so there is no commit to wait for.
func TestASurvivorThatIsBackIsNotBusyUntilItsCommit(t *testing.T) {
	s := newScript(t, Options{NP: 1, MinNP: 1, SlotRestarts: 2, CommitTimeout: time.Hour})
	s.join("a", 0, 1)
	s.wait(time.Second)
	s.arrive("a:0")
	s.up("a:0")
	ring := *s.m.Ring()
	s.event(HostLost{"a"})
	s.did = nil
	s.event(HostJoined{HostInfo{ID: "a", Group: "g", Ring: &ring, Noticed: 1, Slots: []SlotReport{
		{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Notifiable: true}}}})
	s.expect("break 1")
	s.wait(time.Minute)
	s.expect("stop a:0")
}

// A member of an adopted ring counts as connected until its host registers. If the host
// reports otherwise, the ring is forming again, however long ago it was adopted. Its age
// is then no evidence that rank 0 has broadcast the state.
func TestAnAdoptedRingFormsUntilItsLastHostIsConnected(t *testing.T) {
	ring := Ring{Generation: 2, Term: 1}
	for i, id := range []HostID{"a", "b", "c"} {
		ring.Members = append(ring.Members, Member{Proc: Proc{SlotID{id, 0}, 1}, Assignment: Assignment{Rank: i, Size: 3}})
	}
	ring.Members[0].SyncedSince = 1
	s := newScript(t, elasticPair)
	for i, mem := range ring.Members {
		s.inc[mem.Proc.Slot] = 1
		s.wait(10 * time.Second)
		s.event(HostJoined{HostInfo{ID: mem.Proc.Slot.Host, Group: "g", Index: i, Ring: &ring, Slots: []SlotReport{
			{State: InRing, Incarnation: 1, Generation: 2, SyncedSince: mem.SyncedSince, Up: i < 2}}}})
		must.Eq(t, i < 2, s.m.Up())
	}
	s.did = nil
	s.wait(20 * time.Second)
	s.die("c:0", "killed")
	s.die("a:0", "killed")
	s.waiting("b:0")
	s.expect("replace c:0 2/3", "break 2")
	s.wait(2 * time.Second)
	s.die("c:0", "killed")
	s.expect("stop c:0", "retire b:0") // the state is lost
}

// An agent reports a process of a ring, but not the ring.
func TestAProcessLeavesARingThatNoHostKnows(t *testing.T) {
	s := newScript(t, Options{NP: 2, MinNP: 2})
	s.inc[SlotID{Host: "a"}] = 1
	s.event(HostJoined{HostInfo{ID: "a", Slots: []SlotReport{{State: InRing, Incarnation: 1, Generation: 2, SyncedSince: 2}}}})
	s.event(SlotWaiting{Proc: s.proc("a:0"), Generation: 1})
	must.Eq(t, Waiting, s.m.slot(SlotID{Host: "a"}).state)
}
