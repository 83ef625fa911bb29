// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// handingOut returns a ring in which only a:0 holds the state and b:0 is to receive it.
// c:0 has arrived, for the next ring.
func handingOut(t *testing.T, connected bool) *script {
	s := newScript(t, Options{NP: 1, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 1)
	s.wait(time.Second)
	s.arrive("a:0")
	s.up("a:0")
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.arrive("b:0")
	s.waiting("a:0")
	if connected {
		s.up("a:0", "b:0")
	}
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.did = nil
	return s
}

// A member that leaves a ring after a notice may leave for another reason.
func TestWhoLeftARingThatHandsOutTheState(t *testing.T) {
	t.Run("does not hold it when rank 0 died", func(t *testing.T) {
		s := handingOut(t, true)
		s.waiting("b:0") // sees that a:0 is gone before the leader does
		s.did = nil
		s.event(HostLost{"a"})
		s.expect("break 2", "retire b:0", "stop c:0") // the state is lost
	})
	t.Run("does not hold it when rank 0 was a surrogate", func(t *testing.T) {
		s := handingOut(t, false)
		s.wait(6 * time.Second) // long enough for a notice
		s.expect("notify a:0")
		s.die("a:0", "killed")
		s.up("b:0")
		s.expect("surrogate a:0 0/2", "stop a:0", "stop c:0")
		s.waiting("b:0") // sees the surrogate vanish
		s.die("a:0", "killed")
		s.expect("break 2", "retire b:0") // the state is lost
	})
	t.Run("does not hold it when a host was cut off", func(t *testing.T) {
		s := handingOut(t, true)
		ring := *s.m.Ring()
		s.event(Quorum{Reason: "cut off"})
		s.event(HostLost{"a"})
		s.waiting("b:0")
		s.event(HostJoined{HostInfo{ID: "a", Group: "g", Ring: &ring, Slots: []SlotReport{
			{State: Waiting, Incarnation: 1, Generation: 2, SyncedSince: 1, Notifiable: true}}}})
		s.event(Quorum{OK: true})
		must.Eq(t, 3, s.m.Ring().Generation)
		must.Eq(t, 0, s.m.Ring().Find(SlotID{"b", 0}).SyncedSince)
	})
	t.Run("does not hold it when a host was cut off after that", func(t *testing.T) {
		s := handingOut(t, true)
		ring := *s.m.Ring()
		s.waiting("b:0")
		s.event(Quorum{Reason: "cut off"})
		s.event(HostLost{"a"})
		s.event(HostJoined{HostInfo{ID: "a", Group: "g", Ring: &ring, Slots: []SlotReport{
			{State: Waiting, Incarnation: 1, Generation: 2, SyncedSince: 1, Notifiable: true}}}})
		s.event(Quorum{OK: true})
		must.Eq(t, 3, s.m.Ring().Generation)
		must.Eq(t, 0, s.m.Ring().Find(SlotID{"b", 0}).SyncedSince)
	})
	t.Run("holds it when all have left", func(t *testing.T) {
		s := handingOut(t, true)
		s.waiting("b:0", "a:0")
		must.Eq(t, 3, s.m.Ring().Generation)
		must.Eq(t, 2, s.m.Ring().Find(SlotID{"b", 0}).SyncedSince)
	})
}

// A process that waits while a ring forms without it has an old state from then on. If the
// state of this ring is lost, training does not resume from the old one.
func TestOneThatARingFormsWithoutHoldsNoState(t *testing.T) {
	s := newScript(t, Options{NP: 3, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 2)
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.arrive("a:0", "a:1", "b:0")
	s.up("a:0", "a:1", "b:0")
	s.event(Trained{1})
	s.did = nil
	s.die("a:0", "killed") // without it, a:1 can't be used
	s.waiting("a:1", "b:0")
	s.expect("break 1", "form 2: b:0")
	s.up("b:0")
	s.event(Trained{2})
	s.event(HostLost{"b"})
	s.expect("break 2", "retire a:1")
	must.StrContains(t, s.m.end.Reason, "no process that holds the training state is left after ring 2")
}

// A large state takes longer than SyncGrace to broadcast. A script that reports its
// steps would have reported one afterwards.
func TestTheAgeOfARingShowsLittleWhereStepsAreReported(t *testing.T) {
	for _, reports := range []bool{false, true} {
		s := newScript(t, Options{NP: 1, MinNP: 1, SlotRestarts: 2})
		s.join("a", 0, 1)
		s.wait(time.Second)
		s.arrive("a:0")
		s.up("a:0")
		if reports {
			s.event(Trained{1})
		}
		s.join("b", 1, 1)
		s.wait(time.Second)
		s.arrive("b:0")
		s.waiting("a:0")
		s.up("a:0", "b:0")
		s.did = nil
		s.wait(time.Minute)
		s.die("a:0", "killed")
		s.waiting("b:0")
		if reports {
			s.expect("break 2", "retire b:0")
		} else {
			s.expect("break 2", "form 3: b:0")
		}
	}
}

// One of three slots should remain, and the highest one has the state.
func TestTheHolderLeavesAboveAnotherThatLeftForGood(t *testing.T) {
	s := newScript(t, Options{NP: 3, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 3)
	s.wait(time.Second)
	s.arrive("a:0", "a:1", "a:2")
	s.up("a:0", "a:1", "a:2")
	s.event(HostSlots{"a", 1})
	s.did = nil
	s.die("a:0", "killed")
	s.die("a:1", "killed")
	s.waiting("a:2")
	s.expect("break 1")
	s.deadline()
	s.expect("start a:0 1/2")
	s.arrive("a:0")
	s.expect("form 2: a:2 a:0")
	s.up("a:2", "a:0")
	s.event(Trained{2})
	s.waiting("a:2", "a:0")
	s.expect("notify a:2", "form 3: a:0", "retire a:2")
}

// max_np leaves room for one of the two slots of a leaving host.
func TestTheOneKeptOfThoseWhoLeaveHoldsTheState(t *testing.T) {
	s := newScript(t, Options{NP: 3, MinNP: 3, MaxNP: 3, Debounce: time.Millisecond, SlotRestarts: 2})
	ring := Ring{Generation: 2, Members: []Member{
		{Proc: Proc{SlotID{"old", 1}, 1}, SyncedSince: 1, Assignment: Assignment{Rank: 0, Size: 2, LocalRank: 1, LocalSize: 2, CrossSize: 1}},
		{Proc: Proc{SlotID{"old", 0}, 2}, Assignment: Assignment{Rank: 1, Size: 2, LocalRank: 0, LocalSize: 2, CrossSize: 1}}}}
	s.join("new", 1, 3)
	s.event(HostJoined{HostInfo{ID: "old", Ring: &ring, Leaving: true, Slots: []SlotReport{
		{State: Waiting, Incarnation: 2, Generation: 2, Notifiable: true},
		{State: Waiting, Incarnation: 1, Generation: 2, SyncedSince: 1, Notifiable: true}}}})
	s.did = nil
	s.wait(time.Second)
	s.arrive("new:0", "new:1")
	s.expect("start new:0 1/3", "start new:1 2/3", "form 3: old:1 new:0 new:1", "retire old:0")
}

// Any number of newcomers is too few while none of them may get rank 0.
func TestElasticTimeoutWaitsForTheState(t *testing.T) {
	s := nextToADeadSlot(t)
	s.m.opt.ElasticTimeout = 800 * time.Millisecond // less than the back-off of the dead slot
	s.join("b", 1, 2)
	s.wait(600 * time.Millisecond) // b's are admitted
	s.expect("break 1")
	s.wait(200 * time.Millisecond)
	s.expect("retire a:1")
	s.die("a:1", "stopped")
	s.expect("end success=false")
}

// Members of a hanging ring are killed if they do not leave it, but only after one that has
// the state has left. On a busy machine that may take a while.
func TestAHangCostsNoStateOnABusyMachine(t *testing.T) {
	start := func(t *testing.T) *script {
		s := newScript(t, Options{NP: 2, MinNP: 1})
		s.join("a", 0, 1)
		s.join("b", 1, 1)
		s.wait(time.Second)
		s.arrive("a:0", "b:0")
		s.up("a:0", "b:0")
		s.event(Trained{Generation: 1})
		s.did = nil
		s.event(Stalled{Generation: 1})
		s.expect()
		s.wait(8 * time.Second)
		s.expect()
		return s
	}
	t.Run("one leaves late", func(t *testing.T) {
		s := start(t)
		s.waiting("a:0")
		s.expect("stop b:0")
	})
	t.Run("none leaves", func(t *testing.T) {
		s := start(t)
		s.wait(time.Minute)
		s.expect("stop a:0", "stop b:0")
	})
}

// Without a debounce newcomers are started at once.
func TestNoDebounce(t *testing.T) {
	s := newScript(t, elasticPair)
	s.m.opt.Debounce = 0
	s.join("a", 0, 1)
	s.join("b", 1, 1)
	s.expect("start a:0 0/2", "start b:0 1/2")
}

// Without a finish timeout, the others are stopped when the first has succeeded.
func TestNoFinishTimeout(t *testing.T) {
	s := pair(t, elasticPair)
	s.m.opt.FinishTimeout = 0
	s.event(SlotExited{Proc: s.proc("a:0"), Success: true})
	s.expect("stop b:0")
}

// A process that never connected to the others did not leave because of a notice, and got no
// state. Here a connection fails, while a leaves and its ring with b was notified of that.
func TestARingThatNeverConnectedHandsOutNoState(t *testing.T) {
	start := func(t *testing.T) *script {
		s := newScript(t, Options{NP: 1, MinNP: 1, Framework: torch, SlotRestarts: 2})
		s.join("a", 0, 1)
		s.wait(time.Second)
		s.arrive("a:0")
		s.up("a:0")
		s.join("b", 1, 1)
		s.wait(time.Second)
		s.arrive("b:0")
		s.waiting("a:0")
		s.event(HostLeaving{Host: "a"})
		s.wait(noticeDelay)
		s.did = nil
		return s
	}
	holds := func(t *testing.T, s *script) {
		t.Helper()
		ring := s.m.Ring()
		must.Eq(t, 3, ring.Generation)
		must.Eq(t, SlotID{"a", 0}, ring.Members[0].Proc.Slot)
		must.Eq(t, 0, ring.Find(SlotID{"b", 0}).SyncedSince)
	}
	t.Run("all give up", func(t *testing.T) {
		s := start(t)
		s.waiting("b:0", "a:0")
		s.expect("break 2", "form 3: a:0 b:0") // not b alone, and a stays
		holds(t, s)
		s.up("a:0", "b:0")
		s.waiting("a:0", "b:0")
		s.expect("notify a:0", "form 4: b:0", "retire a:0") // b has the state now
	})
	t.Run("one was connected", func(t *testing.T) {
		s := start(t)
		s.up("a:0")
		s.waiting("b:0", "a:0")
		s.expect("break 2", "form 3: a:0 b:0")
		holds(t, s)
	})
	t.Run("what they report when their hosts register again", func(t *testing.T) {
		for _, up := range []bool{false, true} {
			s := start(t)
			ring := s.m.Ring().clone()
			for i, mem := range ring.Members {
				s.event(HostJoined{HostInfo{ID: mem.Proc.Slot.Host, Group: "g", Index: i, Leaving: i == 0, Ring: &ring, Slots: []SlotReport{
					{State: Waiting, Incarnation: 1, Generation: 2, SyncedSince: mem.SyncedSince, Up: up, Notifiable: true}}}})
			}
			if up {
				s.expect("form 3: b:0", "retire a:0")
			} else {
				s.expect("break 2", "form 3: a:0 b:0")
				holds(t, s)
			}
		}
	})
}
