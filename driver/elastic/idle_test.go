// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// The time of a leaving host expires while a member that stays is still on its way to the
// commit. The ring breaks, and the member keeps its time.
func TestWhoWasToldOfAChangeIsBusyAndNotHung(t *testing.T) {
	for name, framework := range map[string]Framework{"horovod": {}, "torch": torch} {
		t.Run(name, func(t *testing.T) {
			three := func(t *testing.T, size int) *script {
				s := newScript(t, Options{NP: size, MinNP: 1, CommitTimeout: 5 * time.Minute, Framework: framework})
				names := []string{"a:0", "b:0", "c:0"}[3-size:]
				for i, name := range names {
					s.join(name[:1], i, 1)
				}
				s.wait(time.Second)
				s.arrive(names...)
				s.up(names...)
				s.event(Trained{1})
				s.did = nil
				s.event(HostLeaving{Host: "c", Within: 30 * time.Second})
				s.expect("notify " + names[0])
				s.did = nil
				s.now = s.now.Add(30 * time.Second)
				s.die("c:0", "stopped")
				s.expect("break 1", "release c failed=false")
				s.event(HostLost{"c"})
				s.events = nil
				return s
			}
			idle := func(s *script, name string) { s.event(SlotIdle{s.proc(name), 1, true}) }
			t.Run("it comes", func(t *testing.T) {
				s := three(t, 3)
				s.waiting("b:0")
				idle(s, "a:0")
				s.wait(4 * time.Minute)
				s.expect()
				s.waiting("a:0")
				s.expect("form 2: a:0 b:0")
				must.Eq(t, nil, s.events)
			})
			t.Run("the host of one that came is lost", func(t *testing.T) {
				s := three(t, 3)
				s.waiting("b:0")
				idle(s, "a:0")
				s.event(HostLost{"b"})
				s.wait(4 * time.Minute)
				s.expect()
				s.waiting("a:0")
				s.expect("form 2: a:0")
			})
			t.Run("it never comes", func(t *testing.T) {
				s := three(t, 3)
				s.waiting("b:0")
				idle(s, "a:0")
				s.wait(5 * time.Minute)
				s.expect("stop a:0")
				must.Eq(t, []string{"rank 0 (host a, slot 0) is killed: it has not left ring 1 in 5m0s after it was told of a change (commit_timeout)"}, s.events)
			})
			t.Run("it alone holds the state", func(t *testing.T) {
				s := three(t, 2)
				idle(s, "b:0")
				s.wait(4 * time.Minute)
				s.expect()
				s.waiting("b:0")
				s.expect("form 2: b:0")
			})
			t.Run("another leads meanwhile", func(t *testing.T) {
				s := three(t, 3)
				ring := *s.m.Ring()
				s.m = New(s.m.opt, 2)
				s.event(Quorum{Reason: "waiting for hosts"})
				for i, name := range []string{"a", "b"} {
					s.event(HostJoined{HostInfo{ID: HostID(name), Group: "g", Index: i, Ring: &ring, Noticed: 1, Slots: []SlotReport{
						{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Notifiable: true, Idle: name == "a"}}}})
				}
				s.event(HostLost{"c"})
				s.event(Quorum{OK: true})
				s.did, s.events = nil, nil
				s.waiting("b:0")
				s.wait(4 * time.Minute)
				s.expect()
			})
		})
	}
}

// A change is pending, and a member dies unexpectedly. A member that hangs from then on
// hangs in Gloo, and is not waiting for a commit, which can't come.
func TestAFailureEndsTheTimeToTheCommit(t *testing.T) {
	s := newScript(t, Options{NP: 3, MinNP: 1, CommitTimeout: 5 * time.Minute})
	for i, name := range []string{"a", "b", "c"} {
		s.join(name, i, 1)
	}
	s.wait(time.Second)
	s.arrive("a:0", "b:0", "c:0")
	s.up("a:0", "b:0", "c:0")
	s.event(Trained{1})
	s.event(HostLeaving{Host: "c", Within: 30 * time.Second})
	s.die("b:0", "killed")
	s.did = nil
	s.event(SlotIdle{s.proc("a:0"), 1, true})
	s.expect()
	s.waiting("c:0")
	s.expect("stop a:0")
}

// An idle member of a broken ring is started again as soon as a process outside of the ring
// has the state, and only then.
func TestAProcessThatHangsInABrokenRingIsStartedAgain(t *testing.T) {
	idle := func(s *script, generation uint64, idle bool) {
		s.event(SlotIdle{s.proc("b:0"), generation, idle})
	}
	three := func(t *testing.T) *script {
		s := newScript(t, Options{NP: 3, MinNP: 1, SlotRestarts: 0})
		for i, name := range []string{"a", "b", "c"} {
			s.join(name, i, 1)
		}
		s.wait(time.Second)
		s.arrive("a:0", "b:0", "c:0")
		s.up("a:0", "b:0", "c:0")
		s.event(Trained{1})
		s.did = nil
		s.event(HostLost{"c"})
		s.expect("break 1")
		return s
	}
	t.Run("another is out first", func(t *testing.T) {
		s := three(t)
		s.waiting("a:0")
		s.expect()
		idle(s, 1, true)
		s.expect("stop b:0")
		s.die("b:0", "killed")
		s.wait(time.Second)
		s.expect("form 2: a:0", "start b:0 1/2") // no failure, of which it may have none
	})
	t.Run("another is out later", func(t *testing.T) {
		s := three(t)
		idle(s, 1, true)
		s.wait(10 * time.Second)
		s.expect()
		s.waiting("a:0")
		s.expect("stop b:0")
		idle(s, 1, true)
		s.expect()
	})
	t.Run("it does something again", func(t *testing.T) {
		s := three(t)
		idle(s, 1, true)
		idle(s, 1, false)
		s.waiting("a:0")
		s.wait(10 * time.Second)
		s.expect()
		s.waiting("b:0")
		s.expect("form 2: a:0 b:0")
	})
	t.Run("it is in another ring", func(t *testing.T) {
		s := three(t)
		s.waiting("a:0")
		idle(s, 2, true)
		s.expect()
		s.waiting("b:0")
		idle(s, 1, true)
		s.up("a:0", "b:0")
		s.wait(10 * time.Second)
		s.expect("form 2: a:0 b:0")
	})
	t.Run("no other holds the state", func(t *testing.T) {
		s := pair(t, elasticPair)
		s.die("a:0", "killed")
		s.did = nil
		idle(s, 1, true)
		s.wait(50 * time.Second)
		s.expect()
		s.wait(20 * time.Second)
		s.expect("stop b:0")
	})
	t.Run("another may not have received it yet", func(t *testing.T) {
		s := pair(t, Options{NP: 2, MinNP: 1})
		s.event(Trained{1})
		s.join("c", 2, 1)
		s.wait(time.Second)
		s.arrive("c:0")
		s.waiting("a:0", "b:0")
		s.up("a:0", "b:0", "c:0")
		s.event(Trained{2})
		s.did = nil
		s.event(HostLost{"a"})
		s.expect("break 2")
		idle(s, 2, true)
		s.waiting("c:0")
		s.expect()
		s.wait(time.Minute)
		s.expect("stop b:0")
	})
	t.Run("the ring is not broken", func(t *testing.T) {
		s := pair(t, elasticPair)
		s.event(Trained{1})
		s.event(HostLeaving{Host: "b"})
		s.expect("notify a:0")
		s.waiting("a:0")
		idle(s, 1, true)
		s.expect()
	})
	t.Run("the leader is another", func(t *testing.T) {
		s := three(t)
		idle(s, 1, true)
		ring := *s.m.Ring()
		s.m = New(patient(Options{NP: 3, MinNP: 1}), 2)
		for i, name := range []string{"a", "b"} {
			s.event(HostJoined{HostInfo{ID: HostID(name), Group: "g", Index: i, Ring: &ring, Slots: []SlotReport{
				{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Idle: name == "b"}}}})
		}
		s.event(HostLost{"c"})
		s.did = nil
		s.waiting("a:0")
		s.expect("stop b:0")
	})
}
