// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// replicas returns a job whose replicas have two slots.
func replicas(t *testing.T, hosts map[string]int, o Options) *script {
	o.Framework, o.Replica = torch, 2
	s := newScript(t, o)
	for i, name := range []string{"a", "b", "c", "d"} {
		if hosts[name] > 0 {
			s.join(name, i, hosts[name])
		}
	}
	s.wait(time.Second)
	return s
}

// twoReplicas returns a job that trains with a whole replica on each of two hosts.
func twoReplicas(t *testing.T, o Options) *script {
	s := replicas(t, map[string]int{"a": 2, "b": 2}, o)
	s.arrive("a:0", "a:1", "b:0", "b:1")
	s.up("a:0", "a:1", "b:0", "b:1")
	s.event(Trained{1})
	s.did = nil
	return s
}

func TestReplicasSitTogether(t *testing.T) {
	for name, c := range map[string]struct {
		hosts map[string]int
		want  string
	}{
		"on one host where they fit":   {map[string]int{"a": 1, "b": 3, "c": 2}, "form 1: b:0 b:1 c:0 c:1 a:0 b:2"},
		"else on two":                  {map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, "form 1: a:0 b:0 c:0 d:0"},
		"and what is left over waits":  {map[string]int{"a": 2, "b": 1}, "form 1: a:0 a:1"},
		"also with more than one slot": {map[string]int{"a": 3, "b": 2, "c": 2}, "form 1: a:0 a:1 b:0 b:1 c:0 c:1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := replicas(t, c.hosts, Options{SlotRestarts: 2})
			for _, name := range []string{"a:0", "a:1", "a:2", "b:0", "b:1", "b:2", "c:0", "c:1", "d:0"} {
				s.arrive(name)
			}
			must.SliceContains(t, s.did, c.want, must.Sprint(s.did))
		})
	}
}

// A replica that lost a member leaves as a whole, and comes back as newcomers.
func TestAReplicaLeavesAndComesBackAsAWhole(t *testing.T) {
	s := twoReplicas(t, Options{SlotRestarts: 2})
	s.die("a:1", "killed")
	s.waiting("a:0", "b:0", "b:1")
	s.expect("break 1", "form 2: b:0 b:1")
	s.up("b:0", "b:1")
	s.wait(5 * time.Second)
	s.expect("start a:1 3/4")
	s.arrive("a:1")
	s.expect("notify b:0")
	s.waiting("b:0", "b:1")
	s.expect("form 3: b:0 b:1 a:0 a:1")
	for rank, since := range []uint64{1, 1, 0, 0} { // a:0 gets its part again: the others have trained on
		must.Eq(t, since, s.m.Ring().Members[rank].SyncedSince, must.Sprint(rank))
	}
}

// Both replicas lose a member, with different places. The remaining members have all parts
// of the state.
func TestAReplicaIsMadeOfTheMembersThatAreLeft(t *testing.T) {
	s := twoReplicas(t, Options{SlotRestarts: 2})
	s.die("a:0", "killed")
	s.die("b:1", "killed")
	s.waiting("a:1", "b:0")
	s.expect("break 1", "form 2: b:0 a:1")
	must.Eq(t, 1, s.m.Ring().Members[1].SyncedSince)
}

func TestTheStateIsLostWithAPartOfIt(t *testing.T) {
	s := twoReplicas(t, Options{SlotRestarts: 2})
	s.die("a:0", "killed")
	s.die("b:0", "killed")
	s.waiting("a:1", "b:1")
	s.event(Tick{})
	s.expect("break 1", "retire a:1", "retire b:1")
}

// A retiring process gives no one its part of the state. So the only other member that has
// this part is not killed for being idle.
func TestOneThatRetiresKeepsNoPartOfTheState(t *testing.T) {
	s := replicas(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, Options{SlotRestarts: 2})
	s.arrive("a:0", "b:0", "c:0", "d:0")
	s.up("a:0", "b:0", "c:0", "d:0")
	s.event(Trained{1})
	s.did = nil
	s.die("c:0", "killed")
	s.waiting("a:0", "d:0")
	s.event(HostLeaving{Host: "d", Within: time.Minute})
	s.event(SlotWaiting{Proc: s.proc("d:0"), Generation: 1, Retiring: true})
	s.event(SlotIdle{s.proc("b:0"), 1, true})
	s.wait(30 * time.Second)
	s.expect("break 1")
	s.waiting("b:0")
	s.expect("form 2: a:0 b:0")
}

// A leaving host has a part of each replica.
func TestReplicasAcrossHostsLeaveWhenOthersHoldTheState(t *testing.T) {
	s := replicas(t, map[string]int{"a": 1, "b": 1}, Options{SlotRestarts: 2})
	s.arrive("a:0", "b:0")
	s.up("a:0", "b:0")
	s.event(Trained{1})
	s.event(HostLeaving{Host: "b"})
	s.did = nil
	s.wait(time.Minute)
	s.expect() // without b there is no state
	s.join("c", 2, 2)
	s.wait(time.Second)
	s.expect("start c:0 2/4", "start c:1 3/4")
	s.arrive("c:0", "c:1")
	s.waiting("a:0", "b:0")
	s.expect("notify a:0", "form 2: a:0 b:0 c:0 c:1")
	s.up("a:0", "b:0", "c:0", "c:1")
	s.event(Trained{2})
	s.waiting("a:0", "b:0", "c:0", "c:1")
	s.expect("notify a:0", "form 3: c:0 c:1", "retire b:0")
}

func TestSurplusSlots(t *testing.T) {
	s := replicas(t, map[string]int{"a": 3, "b": 2}, Options{})
	must.Eq(t, 1, s.m.Surplus())
	s.join("c", 2, 1)
	must.Eq(t, 0, s.m.Surplus())
}

// A leader that takes over knows the replicas from their ring.
func TestANewLeaderKeepsReplicas(t *testing.T) {
	s := twoReplicas(t, Options{SlotRestarts: 2})
	ring := s.m.Ring().clone()
	s.m = New(s.m.opt, 2)
	s.event(Quorum{Reason: "waiting for hosts"})
	for i, name := range []string{"b", "a"} {
		reports := make([]SlotReport, 2)
		for l := range reports {
			reports[l] = SlotReport{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Notifiable: true}
		}
		s.event(HostJoined{HostInfo{ID: HostID(name), Group: "g", Index: 1 - i, Ring: &ring, Slots: reports}})
	}
	s.event(Quorum{OK: true})
	s.did = nil
	s.die("a:0", "killed")
	s.waiting("a:1", "b:0", "b:1")
	s.expect("break 1", "form 2: b:0 b:1")
}
