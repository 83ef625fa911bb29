// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// The next ring forms and trains while a process retires. Its host is released when the
// process has ended, and its exit with 0 does not complete the job.
func TestTheNextRingDoesNotWaitForOneThatRetires(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(HostLeaving{Host: "b", Within: time.Minute})
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0", "retire b:0")
	s.up("a:0")
	s.event(Trained{Generation: 2})
	s.wait(30 * time.Second)
	s.expect()
	s.event(SlotExited{Proc: s.proc("b:0"), Success: true})
	s.expect("release b failed=false")
}

// A slot that its host no longer offers leaves without the host. It is started again only
// after its process has ended.
func TestASlotRetiresOnAHostThatStays(t *testing.T) {
	s := newScript(t, Options{NP: 2, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 2)
	s.wait(time.Second)
	s.arrive("a:0", "a:1")
	s.up("a:0", "a:1")
	s.event(HostSlots{Host: "a", Slots: 1})
	s.waiting("a:0", "a:1")
	s.expect("start a:0 0/2", "start a:1 1/2", "form 1: a:0 a:1", "notify a:0", "form 2: a:0", "retire a:1")
	s.up("a:0")
	s.event(HostSlots{Host: "a", Slots: 2})
	s.wait(time.Minute)
	s.expect()
	s.event(SlotExited{Proc: s.proc("a:1"), Success: true})
	s.wait(time.Second)
	s.expect("start a:1 1/2")
}

// A new leader finds a retiring process. It gives the process no place in a ring, and the
// process's exit does not complete the job.
func TestANewLeaderKnowsWhoRetires(t *testing.T) {
	s := pair(t, elasticPair)
	ring := s.m.Last().clone()
	s.m = New(s.m.opt, 2)
	s.event(HostJoined{HostInfo{ID: "a", Group: "g", Ring: &ring, Slots: []SlotReport{{State: Waiting, Incarnation: 1, Generation: 1, SyncedSince: 1}}}})
	s.event(HostJoined{HostInfo{ID: "b", Group: "g", Index: 1, Ring: &ring, Leaving: true,
		Slots: []SlotReport{{State: Waiting, Incarnation: 1, Generation: 1, SyncedSince: 1, Retiring: true}}}})
	s.expect("form 1: a:0 b:0", "break 1", "form 2: a:0")
	s.event(SlotExited{Proc: s.proc("b:0"), Success: true})
	s.expect("release b failed=false")
}

// A leaving host retires its processes by itself while its leader can form no ring.
func TestAHostReportsThatAProcessRetires(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(HostLeaving{Host: "b", Within: time.Minute})
	s.event(Quorum{Reason: "no one is there"})
	s.waiting("a:0", "b:0")
	s.event(SlotWaiting{Proc: s.proc("b:0"), Generation: 1, Retiring: true})
	s.event(Quorum{OK: true})
	s.expect("notify a:0", "form 2: a:0")
	s.event(SlotExited{Proc: s.proc("b:0"), Success: true})
	s.expect("release b failed=false")
}

// The host may have retired the process before it learned of the ring.
func TestARingBreaksWhoseMemberRetires(t *testing.T) {
	s := pair(t, Options{NP: 2, MinNP: 2, SlotRestarts: 2})
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.waiting("a:0", "b:0")
	s.expect("start c:0 2/3", "notify a:0", "form 2: a:0 b:0 c:0")
	s.event(SlotWaiting{Proc: s.proc("b:0"), Generation: 1, Retiring: true})
	s.expect("break 2")
}

// A retiring process gives no other process the state. So the only other member that has it
// is not killed for being idle.
func TestOneThatRetiresKeepsNoState(t *testing.T) {
	s := newScript(t, Options{NP: 3, MinNP: 1, SlotRestarts: 2})
	for i, host := range []string{"a", "b", "c"} {
		s.join(host, i, 1)
	}
	s.wait(time.Second)
	s.arrive("a:0", "b:0", "c:0")
	s.up("a:0", "b:0", "c:0")
	s.event(Trained{Generation: 1})
	s.did = nil
	s.die("a:0", "killed")
	s.waiting("c:0")
	s.expect("break 1")
	s.event(HostLeaving{Host: "c", Within: time.Minute})
	s.event(SlotWaiting{Proc: s.proc("c:0"), Generation: 1, Retiring: true})
	s.event(SlotIdle{s.proc("b:0"), 1, true})
	s.wait(30 * time.Second)
	for _, did := range s.did {
		must.NotEq(t, "stop b:0", did)
	}
	s.waiting("b:0")
	must.SliceContains(t, s.did, "form 2: b:0")
}
