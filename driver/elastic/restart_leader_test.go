// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// reports returns the registrations of the script's hosts, with their processes as the
// machine knows them.
func (s *script) reports(noticed uint64) (infos []HostInfo) {
	for i, id := range []HostID{"a", "b", "c"} {
		h := s.m.hosts[id]
		if h == nil {
			continue
		}
		info := HostInfo{ID: id, Group: "g", Index: i, Width: h.width, Ring: s.m.Last(), Noticed: noticed}
		for _, sl := range h.slots {
			info.Slots = append(info.Slots, SlotReport{State: sl.state, Incarnation: sl.incarnation, Assignment: sl.assignment,
				Generation: sl.generation, Up: sl.up, Failures: sl.failures, Restarts: true})
		}
		infos = append(infos, info)
	}
	return infos
}

// elect lets another leader take over.
func (s *script) elect(infos []HostInfo) {
	o := s.m.opt
	o.Restarts = false // the new leader learns that from the hosts
	s.m = New(o, 2)
	s.event(Quorum{Reason: "waiting for hosts"})
	for _, info := range slices.Backward(infos) {
		s.event(HostJoined{info})
	}
	s.event(Quorum{OK: true})
}

func TestANewLeaderCarriesOnWithTheNextRing(t *testing.T) {
	t.Run("whose processes start", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "c:0")
		s.elect(s.reports(0))
		s.expect("form 1: a:0 b:0")
		s.arrive("b:1")
		s.expect("notify a:0", "notify b:0")
	})
	t.Run("of which one has yet to start again", func(t *testing.T) {
		s := growing(t)
		s.die("b:1", "exit code 1")
		s.elect(s.reports(0))
		s.expect("form 1: a:0 b:0", "start b:1 1/3")
	})
	t.Run("after a notice", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "b:1", "c:0")
		s.elect(s.reports(1))
		s.wait(time.Second)
		s.expect("notify a:0", "notify b:0", "form 1: a:0 b:0", "notify a:0", "notify b:0")
		s.leaves("a:0", "b:0") // which is no completion
		s.expect("stop b:0", "form 2: a:1 b:1 c:0")
	})
	t.Run("after a notice, when one is out", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "b:1", "c:0")
		s.leaves("b:0")
		s.elect(s.reports(1))
		s.wait(30 * time.Second)
		s.expect("notify a:0", "notify b:0", "form 1: a:0 b:0") // rank 0 has its time
		s.leaves("a:0")
		s.expect("form 2: a:1 b:1 c:0")
	})
	t.Run("when all are out", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "b:1", "c:0")
		s.leaves("b:0")
		infos := s.reports(1)
		infos[0].Slots[0].State = Down
		s.elect(infos)
		s.expect("notify a:0", "notify b:0", "form 1: a:0 b:0", "form 2: a:1 b:1 c:0")
	})
	t.Run("when all have failed", func(t *testing.T) {
		s := unmodified(t, planned)
		s.killed("a:0", "b:0")
		s.did = nil
		infos := s.reports(0)
		for i := range infos {
			infos[i].Slots = make([]SlotReport, 2) // none has arrived, so that it could show what it is
		}
		s.elect(infos)
		s.wait(2 * time.Second)
		s.expect("form 1: a:0 b:0", "break 1", "start a:0 0/2", "start b:0 1/2")
	})
	t.Run("of spares", func(t *testing.T) {
		s := spared(t)
		s.elect(s.reports(0))
		s.expect("form 1: a:0 b:0")
		s.killed("a:0", "b:0")
		s.expect("failed a:0", "break 1", "stop b:0", "form 2: a:1 b:1")
	})
	t.Run("which trains already", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "b:1", "c:0")
		s.leaves("a:0", "b:0")
		s.up("a:1", "b:1", "c:0")
		s.did = nil
		s.elect(s.reports(1)) // the notice was for the ring before
		s.wait(time.Minute)
		s.expect("form 2: a:1 b:1 c:0")
		must.True(t, s.m.Up())
	})
}

// A host that was cut off returns, and its process has exited with 0. If the ring was
// notified, that exit was expected, even if the notice never reached the host.
func TestAHostThatMissedTheNoticeDoesNotCompleteTheJob(t *testing.T) {
	for notice, next := range map[bool][]string{true: {"a:1", "b:1", "c:0"}, false: {"a:1"}} {
		s := growing(t)
		s.arrive(next...)
		info := s.reports(0)[1]
		s.event(HostLost{Host: "b"})
		info.Slots[0], info.Completed, info.CompletedIn = SlotReport{Incarnation: 1}, true, 1
		s.event(HostJoined{info})
		must.Eq(t, notice, s.m.end == nil)
	}
}

func TestNoRingFormsNextToAnEarlierOne(t *testing.T) {
	t.Run("that was the last", func(t *testing.T) {
		s := unmodified(t, planned)
		infos := s.reports(0)
		s.event(HostLost{"b"})
		s.killed("a:0")
		s.expect("break 1", "stop a:0", "start a:0 0/1")
		s.event(HostJoined{infos[1]})
		s.arrive("a:0")
		s.expect("break 1", "stop b:0")
		s.killed("b:0")
		s.expect("stop a:0", "start b:0 1/2") // b is in the plan again
		s.killed("a:0")
		s.expect("start a:0 0/2")
		s.arrive("a:0", "b:0")
		s.expect("form 2: a:0 b:0")
	})
	t.Run("that was one before", func(t *testing.T) {
		s := unmodified(t, planned)
		infos := s.reports(0)
		s.event(HostLost{"b"})
		s.killed("a:0")
		s.arrive("a:0")
		s.up("a:0")
		s.did = nil
		s.event(HostJoined{infos[1]})
		s.expect("stop b:0", "start a:1 0/2", "start b:1 1/2")
		s.arrive("a:1", "b:1")
		s.leaves("a:0")
		s.expect("notify a:0")
		s.killed("b:0")
		s.expect("form 3: a:1 b:1")
	})
}
