// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

var oneSpare = Options{NP: 2, MinNP: 1, SlotRestarts: 2, SpareHosts: 1, Framework: torch}

func (s *script) joinAs(host string, index int) {
	s.event(HostJoined{HostInfo{ID: HostID(host), Group: "g", Index: index, Slots: make([]SlotReport, 1), Reassigns: true}})
}

// withSpares returns hosts a, b and c, of which a and b train. The process of c has yet to
// arrive.
func withSpares(t *testing.T, o Options) *script {
	t.Helper()
	s := newScript(t, o)
	for i, host := range []string{"a", "b", "c"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.expect("start a:0 0/2", "start b:0 1/2")
	s.arrive("a:0", "b:0")
	s.expect("form 1: a:0 b:0") // the spare starts after that
	s.up("a:0", "b:0")
	s.expect("start c:0 2/3")
	return s
}

// replaceB loses host b and expects the spare in its place.
func (s *script) replaceB() {
	s.t.Helper()
	s.event(HostLost{"b"})
	s.expect("break 1")
	s.waiting("a:0")
	s.expect("form 2: a:0 c:0")
	s.up("a:0", "c:0")
}

func TestSpareReplacesALostHost(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.arrive("c:0")
	s.wait(time.Hour)
	s.expect() // it is in no ring, and waits as long as it must
	must.Eq(t, 1, s.m.SparesReady())
	must.Len(t, 2, s.m.Ring().Members)
	must.Eq(t, []string{"this host is a spare: its processes are ready, and wait outside the ring until another host is lost"}, s.events)

	s.replaceB()
	s.expect()
	must.Eq(t, 0, s.m.SparesReady())
	s.joinAs("d", 1)
	s.wait(time.Second)
	s.expect("start d:0 2/3") // it is the next spare
	s.arrive("d:0")
	s.wait(time.Hour)
	s.expect()
	must.Eq(t, 1, s.m.SparesReady())
}

func TestSpareReplacesAProcess(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.arrive("c:0")
	s.die("b:0", "killed")
	s.expect("break 1")
	s.waiting("a:0")
	s.expect("form 2: a:0 c:0")
	s.up("a:0", "c:0")
	s.wait(time.Second)
	s.wait(time.Second)
	s.expect("start b:0 2/3") // its slot is the next spare
}

func TestRingDoesNotWaitForASpare(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.event(HostLost{"b"})
	s.waiting("a:0")
	s.expect("break 1", "form 2: a:0")
	s.up("a:0")
	s.expect()
	s.arrive("c:0") // it joins as any newcomer
	s.expect("notify a:0")
	s.waiting("a:0")
	s.expect("form 3: a:0 c:0")
}

func TestSpareSpeedsGrowthUp(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.arrive("c:0")
	s.joinAs("d", 3)
	s.expect("notify a:0") // the ring grows by c at once
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0 b:0 c:0")
	s.up("a:0", "b:0", "c:0")
	s.wait(time.Second)
	s.expect("start d:0 3/4")
}

func TestNewcomersDoNotWaitForASpare(t *testing.T) {
	s := withSpares(t, oneSpare) // c never arrives
	s.wait(time.Minute)
	s.joinAs("d", 3)
	s.wait(time.Second)
	s.expect("start d:0 3/4")
	s.arrive("d:0")
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0 b:0 d:0")
}

func TestCountShrinks(t *testing.T) {
	t.Run("and a member leaves", func(t *testing.T) {
		s := withSpares(t, oneSpare)
		s.arrive("c:0")
		s.event(HostLeaving{Host: "b"})
		s.expect("notify a:0")
		s.waiting("a:0", "b:0")
		s.expect("form 2: a:0", "retire b:0")
		must.Eq(t, 1, s.m.SparesReady())
	})
	t.Run("and the spare leaves", func(t *testing.T) {
		s := withSpares(t, oneSpare)
		s.arrive("c:0")
		s.event(HostLeaving{Host: "c"})
		s.expect("notify a:0", "stop c:0")
		s.die("c:0", "stopped")
		s.expect("release c failed=false")
		s.waiting("a:0", "b:0")
		s.expect("form 2: a:0") // b waits as the spare, with its process
		s.up("a:0")
		s.expect()
		must.Eq(t, 1, s.m.SparesReady())
	})
	t.Run("and another host takes the place of the one that leaves", func(t *testing.T) {
		s := withSpares(t, oneSpare)
		s.arrive("c:0")
		s.event(HostLeaving{Host: "b"})
		s.joinAs("d", 1)
		s.expect("notify a:0")
		s.waiting("a:0", "b:0")
		s.expect("form 2: a:0 c:0", "retire b:0")
	})
}

// The replacement of a host may register before the loss of the host is noticed.
func TestHostAndItsReplacementCountAsOne(t *testing.T) {
	for name, gone := range map[string]Event{"lost": HostLost{"b"}, "leaves": HostLeaving{Host: "b"}} {
		t.Run(name, func(t *testing.T) {
			s := withSpares(t, oneSpare)
			s.arrive("c:0")
			s.joinAs("d", 1)
			s.expect()
			s.event(gone)
			s.did = nil
			s.waiting("a:0", "b:0")
			must.Eq(t, "form 2: a:0 c:0", s.did[0])
			s.up("a:0", "c:0")
			s.did = nil
			s.wait(time.Second)
			s.expect("start d:0 2/3")
			s.arrive("d:0")
			s.wait(time.Hour)
			s.expect()
			must.Eq(t, 1, s.m.SparesReady())
		})
	}
}

// Of two hosts that are lost at once, one is replaced although the other spare is not ready.
func TestReadySpareDoesNotWaitForAnother(t *testing.T) {
	o := oneSpare
	o.SpareHosts, o.NP, o.MinNP = 2, 3, 2
	s := newScript(t, o)
	for i, host := range []string{"a", "b", "c", "d", "e"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.arrive("a:0", "b:0", "c:0")
	s.up("a:0", "b:0", "c:0")
	s.arrive("d:0")
	s.event(HostLost{"b"})
	s.event(HostLost{"c"})
	s.did = nil
	s.waiting("a:0")
	s.expect("form 2: a:0 d:0")
}

// The count shrinks by a host that is lost: no host leaves, and the machine can't know.
func TestRingKeepsItsSizeIfALostHostIsNotReplaced(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.arrive("c:0")
	s.replaceB()
	s.wait(time.Hour)
	s.expect()
	must.Eq(t, 0, s.m.SparesReady())
	s.joinAs("d", 3)
	s.wait(time.Second)
	s.expect("start d:0 2/3")
	s.arrive("d:0")
	must.Eq(t, 1, s.m.SparesReady())
}

func TestLostSpareChangesNoRing(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.arrive("c:0")
	s.event(HostLost{"c"})
	s.wait(time.Hour)
	s.expect()
	s.joinAs("d", 2)
	s.wait(time.Second)
	s.expect("start d:0 2/3")
}

func TestMinimumComesBeforeASpare(t *testing.T) {
	o := oneSpare
	o.NP, o.MinNP = 3, 3
	s := newScript(t, o)
	for i, host := range []string{"a", "b", "c"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.expect("start a:0 0/3", "start b:0 1/3", "start c:0 2/3")
}

// A ring of np processes that forms before the spare is there stays as it is.
func TestFirstRingComesBeforeASpare(t *testing.T) {
	s := newScript(t, oneSpare)
	s.joinAs("a", 0)
	s.joinAs("b", 1)
	s.wait(time.Second)
	s.arrive("a:0", "b:0")
	s.up("a:0", "b:0")
	s.expect("start a:0 0/2", "start b:0 1/2", "form 1: a:0 b:0")
	s.wait(time.Minute)
	s.joinAs("c", 2)
	s.wait(time.Second)
	s.expect("start c:0 2/3")
}

// Slots that a host no longer offers are no part of the minimum.
func TestMinimumDoesNotIncludeSlotsThatLeave(t *testing.T) {
	o := oneSpare
	o.MinNP = 2
	s := newScript(t, o)
	s.event(HostJoined{HostInfo{ID: "a", Group: "g", Slots: make([]SlotReport, 4), Reassigns: true}})
	s.joinAs("b", 1)
	s.event(HostSlots{"a", 1})
	s.wait(time.Minute)
	s.expect("start a:0 0/2", "start b:0 1/2")
}

// While a ring of replicas shrinks by two hosts, a process dies, and the only other one with
// its part of the state is on a host that is about to be outside.
func TestHostWithAPartOfTheStateIsNoSpare(t *testing.T) {
	o := oneSpare
	o.SpareHosts, o.NP, o.MinNP, o.Replica = 2, 4, 2, 2
	s := newScript(t, o)
	for i, host := range []string{"a", "b", "c", "d", "e", "f"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.arrive("a:0", "b:0", "c:0", "d:0")
	s.up("a:0", "b:0", "c:0", "d:0")
	s.event(Trained{1})
	s.event(HostLeaving{Host: "e"})
	s.event(HostLeaving{Host: "f"})
	s.waiting("a:0", "c:0", "d:0")
	s.did = nil
	s.die("b:0", "killed")
	must.SliceContains(t, s.did, "form 2: c:0 d:0")
}

// A leader that is elected while a host leaves does not count that host, in whatever order
// hosts register.
func TestNewLeaderDoesNotCountAHostThatLeaves(t *testing.T) {
	for _, order := range []string{"abc", "bac", "cba"} {
		s := withSpares(t, oneSpare)
		s.arrive("c:0")
		ring := s.m.Ring().clone()
		s.m = New(patient(oneSpare), 2)
		for _, id := range order {
			member := SlotReport{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Notifiable: true}
			info := HostInfo{ID: HostID(string(id)), Group: "g", Index: int(id - 'a'), Reassigns: true, Ring: &ring, Slots: []SlotReport{member}, Leaving: id == 'b'}
			if id == 'c' {
				info.Slots = []SlotReport{{State: Arrived, Incarnation: 1}}
			}
			s.event(HostJoined{info})
		}
		s.did = nil
		s.waiting("a:0", "b:0")
		must.SliceContains(t, s.did, "form 2: a:0", must.Sprint(order))
		must.Eq(t, 1, s.m.SparesReady())
	}
}

// A leader that is elected after a loss keeps the size of the ring that it finds.
func TestNewLeaderKeepsTheSizeOfTheRing(t *testing.T) {
	s := withSpares(t, oneSpare)
	s.arrive("c:0")
	s.replaceB()
	ring := s.m.Ring().clone()
	s.m = New(patient(oneSpare), 2)
	for i, host := range []HostID{"a", "c"} {
		s.event(HostJoined{HostInfo{ID: host, Group: "g", Index: 2 * i, Reassigns: true, Ring: &ring,
			Slots: []SlotReport{{State: InRing, Incarnation: 1, Generation: 2, SyncedSince: 1, Up: true, Notifiable: true}}}})
	}
	s.wait(time.Hour)
	must.Eq(t, 2, len(s.m.Ring().Members))
	must.SliceNotContains(t, s.did, "notify a:0")
}

func TestScriptThatKeepsNoSpares(t *testing.T) {
	s := newScript(t, oneSpare)
	for i, host := range []string{"a", "b", "c"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.event(SlotArrived{Proc: s.proc("a:0"), Restarts: true})
	must.True(t, strings.Contains(strings.Join(s.events, "\n"), "spare_hosts = 1 has no effect"), must.Sprint(s.events))
	must.Eq(t, 0, s.m.SparesReady())
}
