// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// In these tests, a host a with one slot has the entry a:0 and its standby a:1. With two
// slots, a:2 and a:3 are the standbys of a:0 and a:1.

// restarting returns options for processes that can't change their ring.
func restarting(o Options) Options {
	o.Restarts = true
	o.Framework = Framework{AbandonsForming: true, LocalGaps: true}
	o.SlotRestarts = max(o.SlotRestarts, 2)
	return o
}

var (
	planned   = restarting(elasticPair)
	withSpare = func() Options { o := planned; o.Spares = true; return o }()
)

func (s *script) joinWithStandbys(host string, index, slots int) {
	s.event(HostJoined{HostInfo{ID: HostID(host), Group: "g", Index: index, Slots: make([]SlotReport, 2*slots), Width: slots}})
}

// leaves ends processes after a notice.
func (s *script) leaves(names ...string) {
	for _, n := range names {
		s.event(SlotExited{Proc: s.proc(n), Success: true})
	}
}

func (s *script) killed(names ...string) {
	for _, n := range names {
		s.die(n, "signal: killed")
	}
}

// unmodified returns two hosts of one slot each whose processes train.
func unmodified(t *testing.T, o Options) *script {
	t.Helper()
	s := newScript(t, o)
	s.joinWithStandbys("a", 0, 1)
	s.joinWithStandbys("b", 1, 1)
	s.wait(time.Second)
	s.arrive("a:0", "b:0")
	s.expect("start a:0 0/2", "start b:0 1/2", "form 1: a:0 b:0")
	s.up("a:0", "b:0")
	return s
}

// spared returns unmodified hosts with spares that have arrived.
func spared(t *testing.T) *script {
	t.Helper()
	s := unmodified(t, withSpare)
	s.expect("start a:1 0/2", "start b:1 1/2")
	s.arrive("a:1", "b:1")
	s.expect()
	return s
}

// growing returns unmodified hosts and a third one. The process of the third and the
// next processes of the others have started.
func growing(t *testing.T) *script {
	t.Helper()
	s := unmodified(t, planned)
	s.joinWithStandbys("c", 2, 1)
	s.wait(time.Second)
	s.expect("start a:1 0/3", "start b:1 1/3", "start c:0 2/3")
	return s
}

func TestTheNextRingStartsBesideThePresentOne(t *testing.T) {
	s := growing(t)
	s.arrive("a:1", "c:0")
	s.expect() // the ring trains on
	s.arrive("b:1")
	s.expect("notify a:0", "notify b:0")
	s.leaves("b:0")
	s.wait(30 * time.Second) // rank 0 saves a checkpoint
	s.expect()
	s.leaves("a:0")
	s.expect("form 2: a:1 b:1 c:0")
	must.Eq(t, Assignment{Rank: 1, Size: 3, LocalSize: 1, CrossRank: 1, CrossSize: 3}, s.m.Ring().Members[1].Assignment)
	s.up("a:1", "b:1", "c:0")
	s.wait(time.Minute)
	s.expect()

	s.event(HostLeaving{Host: "b"}) // the entries of the first ring are free again
	s.expect("start a:0 0/2", "start c:1 1/2")
	s.arrive("a:0", "c:1")
	s.expect("notify a:1", "notify b:1", "notify c:0")
	s.leaves("a:1", "b:1", "c:0")
	s.expect("stop b:1", "stop c:0", "release b failed=false", "form 3: a:0 c:1")
}

func TestTheModeIsLearnedFromTheFirstProcess(t *testing.T) {
	o := planned
	o.Restarts = false
	s := newScript(t, o)
	s.joinWithStandbys("a", 0, 2)
	s.wait(time.Second)
	s.expect("start a:0 0/2", "start a:1 1/2") // as when they can change their ring
	s.event(SlotArrived{Proc: s.proc("a:0"), Restarts: true})
	s.event(SlotArrived{Proc: s.proc("a:1"), Restarts: true})
	s.up("a:0", "a:1")
	s.joinWithStandbys("b", 1, 1)
	s.wait(time.Second)
	s.expect("form 1: a:0 a:1", "start a:2 0/3", "start a:3 1/3", "start b:0 2/3")
	must.Eq(t, Assignment{Rank: 1, Size: 3, LocalRank: 1, LocalSize: 2, CrossSize: 1}, s.m.slot(SlotID{"a", 3}).assignment)
}

func TestStandbysAreNotUsedByProcessesThatChangeTheirRing(t *testing.T) {
	o := planned
	o.Restarts = false
	s := unmodified(t, o)
	s.joinWithStandbys("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.waiting("a:0", "b:0")
	s.expect("start c:0 2/3", "notify a:0", "form 2: a:0 b:0 c:0")
}

// A process of another script, or one that uses the store too early, does not change the
// mode of the others' ring.
func TestTheModeOfARingIsNotChangedByANewcomer(t *testing.T) {
	o := planned
	o.Restarts = false
	s := unmodified(t, o)
	s.joinWithStandbys("c", 2, 1)
	s.wait(time.Second)
	for range 3 {
		s.event(SlotArrived{Proc: s.proc("c:0"), Restarts: true})
		s.event(SlotArrived{Proc: s.proc("c:0"), Restarts: true})
		s.expect("start c:0 2/3", "stop c:0")
		s.event(HostJoined{HostInfo{ID: "c", Group: "g", Index: 2, Width: 1, Slots: []SlotReport{{State: Arrived,
			Incarnation: s.proc("c:0").Incarnation, Assignment: s.m.slot(SlotID{"c", 0}).assignment, Restarts: true}, {}}}})
		s.expect("stop c:0") // the first message may be lost
		must.False(t, s.m.Restarts())
		s.killed("c:0")
		s.wait(10 * time.Second)
		s.wait(10 * time.Second)
	}
	s.waiting("a:0", "b:0")
	must.Eq(t, 2, len(s.m.Ring().Members))
}

func TestAHostThatLeavesWaitsForTheNextProcesses(t *testing.T) {
	t.Run("while it has time", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(HostLeaving{Host: "b", Within: time.Minute})
		s.expect("start a:1 0/1")
		s.wait(20 * time.Second)
		s.expect()
		s.arrive("a:1")
		s.expect("notify a:0", "notify b:0")
		s.leaves("b:0")
		s.expect("release b failed=false")
		s.event(HostLost{"b"}) // which does not break the ring: rank 0 saves a checkpoint
		s.expect()
		s.leaves("a:0")
		s.expect("form 2: a:1")
	})
	t.Run("of rank 0", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(HostLeaving{Host: "a", Within: time.Minute})
		s.expect("start b:1 0/1")
		s.arrive("b:1")
		s.leaves("a:0")
		s.expect("notify a:0", "notify b:0", "stop b:0", "release a failed=false")
		s.leaves("b:0")
		s.expect("form 2: b:1")
	})
	t.Run("and not until it is killed", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(HostLeaving{Host: "b", Within: time.Minute})
		s.deadline()
		s.expect("start a:1 0/1", "notify a:0", "notify b:0")
		s.leaves("a:0")
		s.expect("stop b:0")
		s.killed("b:0")
		s.expect("release b failed=false")
		s.arrive("a:1")
		s.expect("form 2: a:1")
	})
	t.Run("and shortly where its time is not known", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(HostLeaving{Host: "b"})
		s.wait(5 * time.Second)
		s.expect("start a:1 0/1", "notify a:0", "notify b:0")
	})
	t.Run("where too few would remain", func(t *testing.T) {
		s := unmodified(t, restarting(Options{NP: 2, MinNP: 2}))
		s.event(HostLeaving{Host: "b", Within: time.Minute})
		s.wait(20 * time.Second)
		s.expect()
		s.joinWithStandbys("c", 2, 1)
		s.wait(time.Second)
		s.arrive("a:1", "c:0")
		s.expect("start a:1 0/2", "start c:0 1/2", "notify a:0", "notify b:0")
	})
	t.Run("and all of them save a checkpoint", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(HostLeaving{Host: "a"})
		s.event(HostLeaving{Host: "b"})
		s.wait(5 * time.Second)
		s.leaves("a:0", "b:0")
		s.expect("start b:1 0/1", "stop b:1", "notify a:0", "notify b:0", "stop b:0", "release a failed=false")
		s.killed("b:1")
		s.expect("release b failed=false")
	})
}

func TestThePlanChangesWhileTheNextProcessesStart(t *testing.T) {
	t.Run("for another size", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1")
		s.event(HostLost{"c"})
		s.joinWithStandbys("d", 3, 1)
		s.expect("stop a:1", "stop b:1") // there is no longer a change
		s.killed("a:1", "b:1")
		s.wait(time.Second)
		s.expect("start a:1 0/3", "start b:1 1/3", "start d:0 2/3")
		s.event(HostLeaving{Host: "b", Within: time.Minute})
		s.expect("stop a:1", "stop d:0", "stop b:1")
		s.killed("a:1")
		s.expect("start a:1 0/2")
	})
	t.Run("by newcomers, who wait for the next change", func(t *testing.T) {
		s := growing(t)
		s.wait(10 * time.Second)
		s.joinWithStandbys("d", 3, 1)
		s.wait(time.Second)
		s.expect()
		s.arrive("a:1", "b:1", "c:0")
		s.expect("notify a:0", "notify b:0")
		s.leaves("a:0", "b:0")
		s.wait(time.Second)
		s.expect("stop b:0", "form 2: a:1 b:1 c:0", "start a:0 0/4", "start b:0 1/4", "start c:1 2/4", "start d:0 3/4")
	})
	t.Run("after the notice, from which there is no way back", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "b:1", "c:0")
		s.event(HostLost{"c"})
		s.expect("notify a:0", "notify b:0", "stop a:1", "stop b:1")
		s.killed("a:1", "b:1")
		s.expect("start a:1 0/2", "start b:1 1/2")
		s.leaves("a:0")
		s.killed("b:0")
		s.arrive("a:1", "b:1")
		s.expect("stop b:0", "form 2: a:1 b:1")
	})
}

// A host without standbys can't run two processes of a slot.
func TestOldOutNewInWithoutStandbys(t *testing.T) {
	s := newScript(t, planned)
	s.join("a", 0, 1)
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.arrive("a:0", "b:0")
	s.up("a:0", "b:0")
	s.did = nil
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.expect("start c:0 2/3", "notify a:0", "notify b:0")
	s.leaves("a:0")
	s.killed("b:0")
	s.expect("stop b:0", "start a:0 0/3", "start b:0 1/3")
	s.arrive("a:0", "b:0")
	s.expect("form 2: a:0 b:0 c:0")
}

func TestMembersEndAfterANotice(t *testing.T) {
	noticed := func(t *testing.T) *script {
		s := growing(t)
		s.arrive("a:1", "b:1", "c:0")
		s.expect("notify a:0", "notify b:0")
		return s
	}
	t.Run("rank 0 first, and the others are stopped", func(t *testing.T) {
		s := noticed(t)
		s.leaves("a:0")
		s.expect("stop b:0")
		s.killed("b:0")
		s.expect("form 2: a:1 b:1 c:0")
	})
	t.Run("rank 0 last, when it has its time", func(t *testing.T) {
		s := noticed(t)
		s.leaves("b:0")
		s.wait(59 * time.Second)
		s.expect()
		s.wait(time.Second)
		s.expect("stop a:0")
	})
	t.Run("with any status", func(t *testing.T) {
		s := noticed(t)
		s.die("b:0", "exit code 1")
		s.die("a:0", "signal: user defined signal 1")
		s.expect("form 2: a:1 b:1 c:0")
		must.Zero(t, s.m.slot(SlotID{"a", 0}).failures+s.m.slot(SlotID{"b", 0}).failures)
	})
	t.Run("not yet, and are asked again", func(t *testing.T) {
		s := noticed(t)
		s.wait(time.Second)
		s.expect("notify a:0", "notify b:0")
	})
	t.Run("although the ring stalls", func(t *testing.T) {
		s := noticed(t)
		s.event(Quorum{Reason: "cut off"}) // which delays the stop
		s.event(Stalled{Generation: 1})
		s.leaves("a:0")
		s.event(Quorum{OK: true})
		s.expect("stop b:0") // and the job goes on
	})
	t.Run("of their host, which leaves while the leader may form no ring", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(Quorum{Reason: "cut off"})
		s.event(HostLeaving{Host: "b"})
		s.event(SlotExited{Proc: s.proc("b:0"), Success: true, Noticed: true})
		s.expect() // training is not complete
		s.event(Quorum{OK: true})
		s.wait(59 * time.Second)
		s.expect("release b failed=false") // rank 0 has its time
		s.leaves("a:0")
		s.wait(time.Minute)
		must.Nil(t, s.m.end)
		must.Zero(t, s.m.slot(SlotID{"a", 0}).failures)
	})
	t.Run("and one of the next has failed meanwhile", func(t *testing.T) {
		s := noticed(t)
		s.die("b:1", "exit code 1")
		s.leaves("a:0", "b:0")
		s.expect("stop b:0", "start b:0 1/3")
		s.arrive("b:0")
		s.expect("form 2: a:1 b:0 c:0")
	})
}

func TestExitZeroCompletesTheJobWithoutANotice(t *testing.T) {
	s := spared(t)
	s.leaves("b:0")
	s.expect("stop a:1", "stop b:1") // a:0 may still write its checkpoint
	s.killed("a:1", "b:1")
	s.leaves("a:0")
	s.expect("end success=true")
}

// If processes can't change their ring, the next ones load a checkpoint. So it does not
// affect the order of hosts which of them knows that its processes have the state.
func TestAHostThatRegistersAgainKeepsItsRanks(t *testing.T) {
	s := unmodified(t, planned)
	s.event(Trained{1})
	s.event(HostJoined{s.reports(0)[0]})
	s.wait(time.Second)
	s.expect()
}
