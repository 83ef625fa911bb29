// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// script drives a machine with short words, and records its actions in the same way:
// "start a:0 0/2", "form 2: a:0 b:0".
type script struct {
	t      *testing.T
	m      *Machine
	now    time.Time
	inc    map[SlotID]int
	did    []string
	events []string // that people read
}

func newScript(t *testing.T, o Options) *script {
	return &script{t: t, m: New(patient(o), 1), now: time.Unix(1e9, 0), inc: map[SlotID]int{}}
}

// patient sets the options that users set, where a test does not.
func patient(o Options) Options {
	o.ElasticTimeout = cmp.Or(o.ElasticTimeout, 10*time.Minute)
	o.Debounce = cmp.Or(o.Debounce, 500*time.Millisecond)
	o.FinishTimeout = cmp.Or(o.FinishTimeout, 10*time.Minute)
	return o
}

func (s *script) proc(name string) Proc {
	host, local, _ := strings.Cut(name, ":")
	id := SlotID{Host: HostID(host)}
	_, err := fmt.Sscan(local, &id.Local)
	must.NoError(s.t, err)
	return Proc{Slot: id, Incarnation: s.inc[id]}
}

func (s *script) event(ev Event) {
	for _, a := range s.m.Step(s.now, ev) {
		switch a := a.(type) {
		case Start:
			s.inc[a.Proc.Slot] = a.Proc.Incarnation
			what := "start"
			if a.Generation > 0 {
				what = "replace"
			}
			if a.Surrogate {
				what = "surrogate"
			}
			s.note("%s %s %d/%d", what, a.Proc.Slot, a.Assignment.Rank, a.Assignment.Size)
		case Stop:
			how := "stop"
			if a.Retire {
				how = "retire"
			}
			s.note("%s %s", how, a.Proc.Slot)
		case Form:
			var names []string
			for _, m := range a.Ring.Members {
				names = append(names, m.Proc.Slot.String())
			}
			s.note("form %d: %s", a.Ring.Generation, strings.Join(names, " "))
		case Notify:
			s.note("notify %s", a.Proc.Slot)
		case Failed:
			s.note("failed %s", a.Slot)
		case Break:
			s.note("break %d", a.Generation)
		case ReleaseHost:
			s.note("release %s failed=%v", a.Host, a.Failed)
		case End:
			s.note("end success=%v", a.Success)
		case TaskEvent:
			s.events = append(s.events, a.Text)
		}
	}
}

func (s *script) note(format string, args ...any) {
	s.did = append(s.did, fmt.Sprintf(format, args...))
}

// expect checks the actions since the last call.
func (s *script) expect(want ...string) {
	s.t.Helper()
	if len(want) == 0 && len(s.did) == 0 {
		return
	}
	must.Eq(s.t, want, s.did)
	s.did = nil
}

func (s *script) wait(d time.Duration) {
	s.now = s.now.Add(d)
	s.event(Tick{})
}

func (s *script) join(host string, index, slots int) {
	s.event(HostJoined{HostInfo{ID: HostID(host), Group: "g", Index: index, Slots: make([]SlotReport, slots)}})
}

func (s *script) arrive(names ...string) {
	for _, n := range names {
		s.event(SlotArrived{Proc: s.proc(n)})
	}
}

// up brings a ring to training; its rank 0 can be notified.
func (s *script) up(names ...string) {
	for _, n := range names {
		s.event(SlotUp{s.proc(n), s.m.Ring().Generation})
		s.event(SlotNotifiable{s.proc(n)})
	}
}

func (s *script) waiting(names ...string) {
	gen := s.m.Last().Generation
	for _, n := range names {
		s.event(SlotWaiting{Proc: s.proc(n), Generation: gen})
	}
}

func (s *script) die(name, status string) {
	s.event(SlotExited{Proc: s.proc(name), Status: status})
}

// pair returns two hosts of one slot each that train.
func pair(t *testing.T, o Options) *script {
	s := newScript(t, o)
	s.join("a", 0, 1)
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.arrive("a:0", "b:0")
	s.up("a:0", "b:0")
	s.expect("start a:0 0/2", "start b:0 1/2", "form 1: a:0 b:0")
	return s
}

var elasticPair = Options{NP: 2, MinNP: 1, SlotRestarts: 2}

func TestFirstRingWaitsForNP(t *testing.T) {
	s := newScript(t, Options{NP: 3, MinNP: 1})
	s.join("a", 0, 2)
	s.wait(time.Minute)
	s.expect()
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.expect("start a:0 0/3", "start a:1 1/3", "start b:0 2/3")
	s.arrive("a:0", "b:0")
	s.expect() // all or nothing
	s.arrive("a:1")
	s.expect("form 1: a:0 a:1 b:0")
}

func TestElasticTimeoutEndsTheWait(t *testing.T) {
	s := newScript(t, Options{NP: 2, MinNP: 2, ElasticTimeout: time.Minute})
	s.join("a", 0, 1)
	s.wait(time.Second)
	s.wait(2 * time.Minute)
	s.expect("end success=false")
}

func TestNewcomersAreStartedAheadAndTakenInTogether(t *testing.T) {
	s := pair(t, elasticPair)
	s.join("c", 2, 1)
	s.wait(100 * time.Millisecond)
	s.join("d", 3, 1)
	s.expect() // more may come
	s.wait(time.Second)
	s.expect("start c:0 2/4", "start d:0 3/4")
	s.arrive("c:0")
	s.expect() // the ring trains on
	s.arrive("d:0")
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0 b:0 c:0 d:0")
}

func TestLaterNewcomersDoNotDelayEarlierOnes(t *testing.T) {
	s := pair(t, elasticPair)
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.expect("start c:0 2/3")
	s.wait(10 * time.Second)
	s.join("d", 3, 1) // c would have to start again for a ring of 4
	s.wait(time.Second)
	s.arrive("c:0")
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.wait(time.Second)
	s.expect("form 2: a:0 b:0 c:0", "start d:0 3/4")
}

func TestNoticesAreRepeatedUntilTheRingEnds(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(HostLeaving{Host: "b"})
	s.wait(600 * time.Millisecond)
	s.wait(600 * time.Millisecond)
	s.expect("notify a:0", "notify a:0", "notify a:0")
	s.waiting("b:0")
	s.wait(600 * time.Millisecond)
	s.expect()
}

func TestANoticeWaitsForRankZeroToListen(t *testing.T) {
	s := newScript(t, elasticPair)
	s.join("a", 0, 1)
	s.join("b", 1, 1)
	s.wait(time.Second)
	s.arrive("a:0", "b:0")
	s.did = nil
	for _, n := range []string{"a:0", "b:0"} {
		s.event(SlotUp{s.proc(n), 1})
	}
	s.event(HostLeaving{Host: "b"})
	s.expect()
	s.event(SlotNotifiable{s.proc("a:0")})
	s.expect("notify a:0")
}

func TestLeavingHostsLeaveAtACommit(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(HostLeaving{Host: "b"})
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0", "retire b:0")
	s.die("b:0", "killed")
	s.expect("release b failed=false")
}

func TestTheStateIsHandedOverWhenAllHostsLeave(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(HostLeaving{Host: "a"})
	s.event(HostLeaving{Host: "b"})
	s.join("c", 2, 1)
	s.did = nil
	s.wait(time.Second)
	s.expect("start c:0 2/3")
	s.arrive("c:0")
	s.waiting("a:0", "b:0")
	s.expect("notify a:0", "form 2: a:0 b:0 c:0") // c can't train before it has the state
	s.up("a:0", "b:0", "c:0")
	s.waiting("a:0", "b:0", "c:0") // a commit: now it has
	s.expect("notify a:0", "form 3: c:0", "retire a:0", "retire b:0")
}

func TestSurvivorsGoOnAtOnce(t *testing.T) {
	s := pair(t, elasticPair)
	s.die("b:0", "signal: killed")
	s.expect("break 1")
	s.waiting("a:0")
	s.expect("form 2: a:0")
	s.up("a:0")
	s.wait(2 * time.Second) // back-off
	s.wait(time.Second)
	s.expect("start b:0 1/2")
}

// A member dies while newcomers wait for the ring. If they take any place, they take the one
// in the next ring, and none of them starts again.
func TestNewcomersOutliveTheRingTheyWereStartedFor(t *testing.T) {
	for name, c := range map[string]struct {
		asks bool
		want []string
	}{
		"they ask for their place":       {true, []string{"break 1", "form 2: a:0 c:0 d:0"}},
		"their environment has its rank": {false, []string{"break 1", "form 2: a:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, Options{NP: 2, MinNP: 1, SlotRestarts: 2, Framework: torch})
			join := func(host string, index int) {
				s.event(HostJoined{HostInfo{ID: HostID(host), Group: "g", Index: index, Slots: make([]SlotReport, 1), Reassigns: c.asks}})
			}
			join("a", 0)
			join("b", 1)
			s.wait(time.Second)
			s.arrive("a:0", "b:0")
			s.up("a:0", "b:0")
			join("c", 2)
			join("d", 3)
			s.wait(time.Second)
			s.arrive("c:0") // d:0 still starts
			s.did = nil
			s.die("b:0", "killed")
			if c.asks {
				s.arrive("d:0")
			}
			s.waiting("a:0")
			must.Eq(t, c.want, s.did[:2])
			s.up("a:0")
			s.wait(3 * time.Second) // b:0 is started again
			stops := slices.ContainsFunc(s.did, func(did string) bool { return strings.HasPrefix(did, "stop") })
			must.Eq(t, !c.asks, stops, must.Sprint(s.did))
		})
	}
}

func TestRankZeroHoldsTheState(t *testing.T) {
	s := pair(t, elasticPair)
	s.die("a:0", "signal: killed")
	s.waiting("b:0")
	s.expect("break 1", "form 2: b:0")
	s.up("b:0")
	s.wait(2 * time.Second)
	s.wait(time.Second)
	s.arrive("a:0")
	s.waiting("b:0")
	s.expect("start a:0 1/2", "notify b:0", "form 3: b:0 a:0")
}

func TestASlotThatDiesAloneIsReplacedInPlaceWithItsLocalRank(t *testing.T) {
	s := newScript(t, Options{NP: 4, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 2)
	s.join("b", 1, 2)
	s.wait(time.Second)
	s.arrive("a:0", "a:1", "b:0", "b:1")
	s.up("a:0", "a:1", "b:0", "b:1")
	s.did = nil
	s.die("b:0", "exit code 1")
	s.waiting("a:0", "a:1", "b:1")
	// b:1 waits: a ring needs local ranks without a hole, and b:1 its GPU.
	s.expect("break 1", "form 2: a:0 a:1")
	s.up("a:0", "a:1")
	s.wait(2 * time.Second)
	s.wait(time.Second)
	s.arrive("b:0")
	s.waiting("a:0", "a:1")
	s.expect("start b:0 2/4", "notify a:0", "form 3: a:0 a:1 b:0 b:1")
}

func TestTheSlotsAboveOneThatDiesTrainOnWhereLocalRanksMayHaveGaps(t *testing.T) {
	s := newScript(t, Options{NP: 4, MinNP: 1, SlotRestarts: 2, Framework: Framework{AbandonsForming: true, LocalGaps: true}})
	s.join("a", 0, 2)
	s.join("b", 1, 2)
	s.wait(time.Second)
	s.arrive("a:0", "a:1", "b:0", "b:1")
	s.up("a:0", "a:1", "b:0", "b:1")
	s.did = nil
	s.die("a:0", "exit code 1")
	s.waiting("a:1", "b:0", "b:1")
	s.expect("break 1", "form 2: a:1 b:0 b:1")
	s.up("a:1", "b:0", "b:1")
	must.Eq(t, Assignment{Rank: 0, Size: 3, LocalRank: 1, LocalSize: 1, CrossRank: 0, CrossSize: 2}, s.m.Ring().Members[0].Assignment)
	s.wait(2 * time.Second)
	s.wait(time.Second)
	s.arrive("a:0")
	s.waiting("a:1", "b:0", "b:1")
	s.expect("start a:0 1/4", "notify a:1", "form 3: a:1 a:0 b:0 b:1")
}

// givenUp returns a ring of three that forms, of processes that can give it up.
func givenUp(t *testing.T) *script {
	t.Helper()
	o := elasticPair
	o.Framework.AbandonsForming = true
	s := pair(t, o)
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.waiting("a:0", "b:0")
	s.did = nil
	return s
}

func TestADeathWhileTheRingForms(t *testing.T) {
	t.Run("is repaired while no other process has seen the address", func(t *testing.T) {
		s := newScript(t, elasticPair)
		s.join("a", 0, 1)
		s.join("b", 1, 1)
		s.wait(time.Second)
		s.arrive("a:0", "b:0")
		s.did = nil
		s.die("b:0", "signal: killed")
		s.expect("replace b:0 1/2")
	})
	t.Run("breaks a ring that the others can give up", func(t *testing.T) {
		s := givenUp(t)
		s.die("a:0", "signal: killed")
		s.expect("break 2")
		s.wait(5 * time.Second) // they connect, and may take their time
		s.expect()
		s.waiting("b:0", "c:0")
		s.expect("form 3: b:0 c:0")
	})
	t.Run("is not waited for by one that does not give up", func(t *testing.T) {
		s := givenUp(t)
		s.die("c:0", "signal: killed")
		s.waiting("a:0")
		s.expect("break 2")
		s.wait(abandonGrace)
		s.expect("stop b:0")
	})
	t.Run("of rank 0 needs a surrogate, which never broadcasts", func(t *testing.T) {
		s := pair(t, elasticPair)
		s.join("c", 2, 1)
		s.wait(time.Second)
		s.arrive("c:0")
		s.waiting("a:0", "b:0")
		s.did = nil
		s.die("a:0", "signal: killed")
		s.expect("surrogate a:0 0/3")
		s.up("b:0", "c:0") // the others are through; a:0 is held
		s.expect("stop a:0")
		s.die("a:0", "killed")
		s.waiting("b:0", "c:0")
		s.expect("break 2", "form 3: b:0 c:0")
	})
	t.Run("ends the ring once it was seen", func(t *testing.T) {
		s := pair(t, elasticPair)
		s.join("c", 2, 1)
		s.wait(time.Second)
		s.arrive("c:0")
		s.waiting("a:0", "b:0")
		s.did = nil
		s.event(SlotExited{Proc: s.proc("c:0"), Visible: true})
		s.expect("break 2")
		s.wait(3 * time.Second)
		s.expect("stop a:0", "stop b:0")
	})
}

// nextToADeadSlot returns a host whose slot 1 alone holds the state. The slot can't be
// used before slot 0 has been started again.
func nextToADeadSlot(t *testing.T) *script {
	s := newScript(t, elasticPair)
	s.join("a", 0, 2)
	s.wait(time.Second)
	s.arrive("a:0", "a:1")
	s.up("a:0", "a:1")
	s.event(Trained{1})
	s.did = nil
	s.die("a:0", "killed")
	s.waiting("a:1")
	return s
}

// deadline sends the tick that the machine asked for.
func (s *script) deadline() {
	s.now = s.m.Deadline()
	s.event(Tick{})
}

// No tick comes between the deadlines that the machine sets.
func TestTheLastHolderLeavesNextToADeadSlot(t *testing.T) {
	s := nextToADeadSlot(t)
	s.event(HostSlots{"a", 1}) // of which the dead slot is to remain
	s.expect("break 1")
	s.deadline()
	s.expect("start a:0 1/2")
	s.arrive("a:0")
	s.expect("form 2: a:1 a:0")
	s.up("a:1", "a:0")
	s.event(Trained{2})
	s.expect("notify a:1")
	s.waiting("a:0", "a:1")
	s.expect("form 3: a:0", "retire a:1")
}

// A ring of newcomers alone can't form while another process has the state.
func TestNewcomersWaitForTheHolderNextToADeadSlot(t *testing.T) {
	s := nextToADeadSlot(t)
	s.join("b", 1, 2)
	s.expect("break 1")
	s.deadline()
	s.deadline()
	s.expect("start a:0 1/4", "start b:1 2/4", "start b:0 3/4")
	s.arrive("a:0", "b:0", "b:1")
	s.expect("form 2: a:1 a:0 b:1 b:0")
}

func TestAHostThatKeepsFailingIsGivenBack(t *testing.T) {
	s := newScript(t, Options{NP: 1, MinNP: 1, SlotRestarts: 2})
	s.join("a", 0, 1)
	for range 3 {
		s.wait(time.Minute)
		s.wait(time.Minute)
		s.die("a:0", "exit code 1")
	}
	s.expect("start a:0 0/1", "start a:0 0/1", "start a:0 0/1", "release a failed=true")
}

func TestAProcessThatHangsIsLeftBehind(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(Stalled{Generation: 1})
	s.waiting("a:0")
	s.expect()
	s.wait(6 * time.Second) // b hangs
	s.expect("stop b:0")
	s.die("b:0", "killed")
	s.expect("form 2: a:0")
}

func TestResetLimit(t *testing.T) {
	s := pair(t, Options{NP: 2, MinNP: 1, ResetLimit: 1})
	s.event(HostLeaving{Host: "b"})
	s.waiting("a:0", "b:0")
	s.up("a:0")
	s.die("b:0", "killed")
	s.did = nil
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.waiting("a:0")
	s.expect("start c:0 1/2", "notify a:0", "retire a:0", "stop c:0")
	s.die("a:0", "killed")
	s.die("c:0", "killed")
	s.expect("end success=false")
}

func TestSuccessOfOneEndsTheJob(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(SlotExited{Proc: s.proc("b:0"), Success: true})
	s.expect() // a may still write its checkpoint
	s.event(SlotExited{Proc: s.proc("a:0"), Success: true})
	s.expect("end success=true")
	s.join("c", 2, 1)
	s.expect("end success=true") // and never trains again
}

func TestTheStateIsLost(t *testing.T) {
	t.Run("is a clear end", func(t *testing.T) {
		s := pair(t, elasticPair)
		s.die("a:0", "killed")
		s.die("b:0", "killed")
		s.expect("break 1", "end success=false")
	})
	t.Run("or a restart from the script's checkpoint", func(t *testing.T) {
		s := pair(t, Options{NP: 2, MinNP: 1, SlotRestarts: 2, OnRingLost: Restart})
		s.die("a:0", "killed")
		s.die("b:0", "killed")
		s.expect("break 1")
		s.wait(2 * time.Second)
		s.wait(time.Second)
		s.expect("start a:0 0/2", "start b:0 1/2")
	})
}

func TestNoRingWithoutAQuorum(t *testing.T) {
	s := pair(t, elasticPair)
	s.event(Quorum{Reason: "cut off"})
	s.event(HostLost{"b"})
	s.waiting("a:0")
	s.wait(time.Hour)
	s.expect()
	s.event(Quorum{OK: true})
	s.expect("break 1", "form 2: a:0")
}

func TestANewLeaderCarriesOn(t *testing.T) {
	s := pair(t, elasticPair)
	ring := *s.m.Ring()
	next := New(patient(elasticPair), 2)
	s.m = next
	for i, h := range []HostID{"a", "b"} {
		s.event(HostJoined{HostInfo{ID: h, Group: "g", Index: i, Ring: &ring, Slots: []SlotReport{
			{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Notifiable: true}}}})
	}
	s.did = nil
	s.join("c", 2, 1)
	s.wait(time.Second)
	s.arrive("c:0")
	s.waiting("a:0", "b:0")
	s.expect("start c:0 2/3", "notify a:0", "form 2: a:0 b:0 c:0")
	must.Eq(t, uint64(2), next.Ring().Term)
}

func TestAHostThatNomadGaveUpIsNotTakenBack(t *testing.T) {
	s := pair(t, elasticPair)
	ring := *s.m.Ring()
	s.event(HostLost{"b"})
	s.waiting("a:0")
	s.expect("break 1", "form 2: a:0")
	s.up("a:0")
	s.event(HostJoined{HostInfo{ID: "b", Group: "g", Index: 1, Ring: &ring, Dropped: true,
		Slots: []SlotReport{{State: Waiting, Incarnation: 1, Generation: 1, SyncedSince: 1}}}})
	s.wait(time.Minute)
	s.expect("retire b:0")
	s.die("b:0", "killed")
	s.expect("release b failed=true")
}

func TestAssignmentsWithUnequalSlots(t *testing.T) {
	at := func(host string, local int) candidate {
		return candidate{proc: Proc{Slot: SlotID{HostID(host), local}}, syncedSince: 1}
	}
	// The example that was measured with Horovod: a has two slots, b one.
	got := assign([][]candidate{{at("a", 0), at("a", 1)}, {at("b", 0)}}, 0)
	must.Eq(t, []Assignment{{0, 3, 0, 2, 0, 2}, {1, 3, 1, 2, 0, 1}, {2, 3, 0, 1, 1, 2}},
		[]Assignment{got[0].Assignment, got[1].Assignment, got[2].Assignment})
}

// A host remembers failures that no longer count. It must not be given back for them
// when it registers again.
func TestFailuresStayForgivenAfterRegistration(t *testing.T) {
	join := func(failures int, ago time.Duration) *script {
		s := newScript(t, Options{NP: 1, MinNP: 1, SlotRestarts: 2})
		s.event(HostJoined{HostInfo{ID: "a", Slots: []SlotReport{{Failures: failures, FailedAgo: ago.Seconds()}}}})
		s.wait(time.Second)
		return s
	}
	join(3, time.Minute).expect("release a failed=true")
	join(2, time.Minute).expect("start a:0 0/1")

	s := join(3, 30*time.Minute)
	for range 2 { // the earlier ones no longer count
		s.die("a:0", "exit code 1")
		s.wait(3 * time.Second)
	}
	s.expect("start a:0 0/1", "start a:0 0/1", "start a:0 0/1")
	s.die("a:0", "exit code 1")
	s.expect("release a failed=true")

	s = join(2, 5*time.Minute) // both still count
	s.die("a:0", "exit code 1")
	s.expect("start a:0 0/1", "release a failed=true")
}

// formOf returns the ring of the Form among the actions.
func formOf(t *testing.T, actions []Action) *Ring {
	for _, a := range actions {
		if f, ok := a.(Form); ok {
			return &f.Ring
		}
	}
	t.Fatalf("no ring in %+v", actions)
	return nil
}

// Agents read an action's ring while the machine changes its own.
func TestARingThatWasHandedOutDoesNotChange(t *testing.T) {
	for name, again := range map[string]func(*script) []Action{
		"to a host that is back": func(s *script) []Action {
			return s.m.Step(s.now, HostJoined{HostInfo{ID: "c", Group: "g", Index: 2, Slots: []SlotReport{{State: Arrived, Incarnation: 1}}}})
		},
		"to a process that asked too early": func(s *script) []Action {
			return s.m.Step(s.now, SlotWaiting{Proc: s.proc("a:0"), Generation: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := pair(t, elasticPair)
			s.join("c", 2, 1)
			s.wait(time.Second)
			s.arrive("c:0")
			s.waiting("a:0", "b:0")
			ring := formOf(t, again(s))
			s.die("b:0", "killed")
			must.Eq(t, 2, s.m.Ring().Find(SlotID{"b", 0}).Proc.Incarnation)
			must.Eq(t, 1, ring.Find(SlotID{"b", 0}).Proc.Incarnation)
		})
	}
}

// A process that should have replaced another in place was never started, because its
// host's session broke. The ring names it, and would admit a later process with that name.
func TestANameIsNotGivenTwice(t *testing.T) {
	lost := func(t *testing.T) (*script, HostInfo) {
		s := newScript(t, elasticPair)
		s.join("a", 0, 1)
		s.join("b", 1, 1)
		s.wait(time.Second)
		s.arrive("a:0", "b:0")
		s.die("b:0", "killed")
		s.expect("start a:0 0/2", "start b:0 1/2", "form 1: a:0 b:0", "replace b:0 1/2")
		return s, HostInfo{ID: "b", Group: "g", Index: 1, Slots: []SlotReport{{Incarnation: 1}}}
	}
	goOn := func(s *script) {
		s.wait(3 * time.Second) // a:0 can't go on: it was connecting
		s.die("a:0", "killed")
		s.wait(3 * time.Second)
		s.wait(3 * time.Second)
		must.Eq(s.t, 3, s.proc("b:0").Incarnation)
	}
	t.Run("by the same leader", func(t *testing.T) {
		s, info := lost(t)
		s.m.opt.OnRingLost = Restart
		s.event(HostJoined{info})
		goOn(s)
	})
	t.Run("by another, that knows the ring as it was", func(t *testing.T) {
		s, info := lost(t)
		now, was := *s.m.Ring(), *s.m.Ring()
		was.Members = slices.Clone(now.Members)
		was.Members[1].Proc.Incarnation = 1
		s.m = New(patient(Options{NP: 2, MinNP: 1, SlotRestarts: 2, OnRingLost: Restart}), 2)
		s.event(HostJoined{HostInfo{ID: "a", Group: "g", Ring: &was, Slots: []SlotReport{{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1}}}})
		info.Ring = &now
		s.event(HostJoined{info})
		goOn(s)
	})
}

func TestAHostThatRegistersAgainIsReleasedAgain(t *testing.T) {
	s := newScript(t, elasticPair)
	info := HostInfo{ID: "a", Slots: make([]SlotReport, 1)}
	s.event(HostJoined{info})
	s.event(HostLeaving{Host: "a"})
	s.expect("release a failed=false")
	info.Leaving = true
	s.event(HostJoined{info}) // its session broke before that
	s.expect("release a failed=false")
}

// The host of the last ring registers with a new leader while its task is
// being stopped.
func TestANewLeaderKeepsTheStateOfAHostThatLeaves(t *testing.T) {
	ring := *pair(t, elasticPair).m.Ring()
	s := newScript(t, elasticPair)
	s.inc[SlotID{"a", 0}] = 1
	s.event(HostJoined{HostInfo{ID: "a", Group: "g", Ring: &ring, Leaving: true, Slots: []SlotReport{
		{State: Waiting, Incarnation: 1, Generation: 1, SyncedSince: 1, Notifiable: true}}}})
	s.event(HostLost{"b"})
	s.expect("form 1: a:0 b:0", "break 1", "form 2: a:0")
	s.up("a:0")
	s.wait(6 * time.Second) // no newcomer came
	s.waiting("a:0")
	s.expect("notify a:0", "retire a:0")
}
