// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestANextProcessFails(t *testing.T) {
	t.Run("and is started again, while the ring trains", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "c:0")
		s.die("b:1", "exit code 1")
		s.expect()
		s.wait(time.Second)
		s.expect("start b:1 1/3")
		s.arrive("b:1")
		s.expect("notify a:0", "notify b:0")
	})
	t.Run("of a newcomer, whose host is given back", func(t *testing.T) {
		s := growing(t)
		for range 2 {
			s.die("c:0", "exit code 1")
			s.wait(2 * time.Second)
		}
		s.die("c:0", "exit code 1")
		s.expect("start c:0 2/3", "start c:0 2/3", "stop a:1", "stop b:1", "release c failed=true")
	})
	t.Run("next to a member, which does not cost the host", func(t *testing.T) {
		s := growing(t)
		for range 2 {
			s.die("b:1", "exit code 1")
			s.wait(2 * time.Second)
		}
		s.arrive("a:1", "c:0")
		s.expect("start b:1 1/3", "start b:1 1/3")
		s.die("b:1", "exit code 1: address in use") // it starts when the old one is out
		s.expect("notify a:0", "notify b:0")
		s.leaves("a:0")
		s.killed("b:0")
		s.expect("stop b:0", "start b:0 1/3")
		s.arrive("b:0")
		s.expect("form 2: a:1 b:0 c:0")
	})
	t.Run("of a spare", func(t *testing.T) {
		s := spared(t)
		for range 2 {
			s.die("b:1", "exit code 1")
			s.wait(2 * time.Second)
		}
		s.die("b:1", "exit code 1")
		s.wait(5 * time.Minute)
		s.expect("start b:1 1/2", "start b:1 1/2") // and the ring trains on
		s.wait(5 * time.Minute)
		s.expect("start b:1 1/2") // one failure is forgiven
	})
	t.Run("with exit code 0 before it arrived", func(t *testing.T) {
		s := growing(t)
		s.leaves("b:1")
		s.wait(time.Second)
		s.expect("start b:1 1/3")
	})
	t.Run("by a time-out", func(t *testing.T) {
		s := growing(t)
		s.arrive("a:1", "c:0")
		s.wait(10 * time.Minute)
		s.expect("stop b:1")
		s.killed("b:1")
		s.expect("start b:1 1/3")
	})
}

func TestAMemberFails(t *testing.T) {
	t.Run("and all start again", func(t *testing.T) {
		s := unmodified(t, planned)
		s.die("b:0", "exit code 1")
		s.expect("failed b:0", "break 1", "stop a:0")
		s.killed("a:0")
		s.expect("start a:0 0/2") // b:0 after its back-off, of which a:0 needs not know
		s.wait(time.Second)
		s.arrive("a:0", "b:0")
		s.expect("start b:0 1/2", "form 2: a:0 b:0")
	})
	t.Run("and spares are there", func(t *testing.T) {
		s := spared(t)
		s.killed("b:0")
		s.expect("failed b:0", "break 1", "stop a:0")
		s.killed("a:0")
		s.expect("form 2: a:1 b:1")
		s.up("a:1", "b:1")
		s.expect("start a:0 0/2") // for the next failure
		s.wait(time.Second)
		s.expect("start b:0 1/2")
	})
	t.Run("and its spare has yet to arrive", func(t *testing.T) {
		s := unmodified(t, withSpare)
		s.arrive("a:1")
		s.killed("a:0", "b:0")
		s.expect("start a:1 0/2", "start b:1 1/2", "failed a:0", "break 1", "stop b:0")
		s.arrive("b:1")
		s.expect("form 2: a:1 b:1")
	})
	t.Run("and spares were started for another size", func(t *testing.T) {
		s := spared(t)
		s.event(HostLost{"b"})
		s.expect("break 1", "stop a:0")
		s.killed("a:0")
		s.expect("stop a:1") // it has WORLD_SIZE=2
		s.killed("a:1")
		s.arrive("a:0")
		s.expect("start a:0 0/1", "form 2: a:0")
	})
	t.Run("while the ring forms", func(t *testing.T) {
		s := newScript(t, planned)
		s.joinWithStandbys("a", 0, 1)
		s.joinWithStandbys("b", 1, 1)
		s.wait(time.Second)
		s.arrive("a:0", "b:0")
		s.did = nil
		s.die("a:0", "exit code 1")
		s.expect("failed a:0", "break 1", "stop b:0")
	})
	t.Run("and others crash because of it, which is no failure of theirs", func(t *testing.T) {
		s := unmodified(t, restarting(Options{NP: 2, MinNP: 1, SlotRestarts: 1}))
		s.event(Quorum{Reason: "cut off"}) // which delays the stop
		s.die("b:0", "exit code 1")
		s.die("a:0", "exit code 1")
		must.Zero(t, s.m.slot(SlotID{"a", 0}).failures)
		must.Eq(t, 1, s.m.slot(SlotID{"b", 1}).failures)
		s.expect("failed b:0", "break 1")
	})
	t.Run("and hangs do not leave", func(t *testing.T) {
		s := unmodified(t, planned)
		s.event(Stalled{Generation: 1})
		s.expect("stop a:0", "stop b:0")
	})
	t.Run("too often", func(t *testing.T) {
		s := newScript(t, restarting(Options{NP: 1, MinNP: 1}))
		s.joinWithStandbys("a", 0, 1)
		for gen := range 3 {
			s.wait(2 * time.Second)
			s.arrive("a:0")
			must.Eq(t, uint64(gen)+1, s.m.Ring().Generation)
			s.up("a:0")
			s.did = nil
			s.die("a:0", "exit code 1")
		}
		s.expect("failed a:0", "break 3", "release a failed=true")
	})
}
