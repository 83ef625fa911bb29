// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// started returns a simulation in which the named agents have agreed on a leader
// and formed a ring of all.
func started(t *testing.T, ids ...string) *sim {
	s := newSim(1)
	for _, id := range ids {
		s.register(id)
		s.start(id)
	}
	s.run(4 * time.Second)
	for _, id := range ids {
		must.Eq(t, "a", s.leader(id), must.Sprint(s.history()))
	}
	s.tryForm("a", true)
	s.run(2 * time.Second)
	must.Len(t, 1, s.formed, must.Sprint(s.history()))
	return s
}

func (s *sim) leader(id string) string { return s.agents[id].m.Leadership().Leader.AllocID }

// isolate cuts the agents off from all others, and from the registry if wanted.
func (s *sim) isolate(registry bool, ids ...string) {
	in := make(map[string]bool)
	for _, id := range ids {
		in[id] = true
		s.away[id] = registry
	}
	for _, id := range ids {
		for other := range s.agents {
			if !in[other] {
				s.cut[link(id, other)] = true
			}
		}
	}
}

// form lets the agent ask for a ring of the given hosts and reports whether it
// was formed within d.
func (s *sim) form(id string, d time.Duration, hosts ...string) bool {
	n := len(s.formed)
	a := s.agents[id]
	s.do(a, a.m.Propose(s.now, a.m.Rings().Latest().Generation+1, hosts))
	s.run(d)
	s.do(a, a.m.Withdraw(s.now))
	return slices.ContainsFunc(s.formed[n:], func(f formed) bool { return f.ring.Leader.AllocID == id })
}

func (s *sim) mayForm(id string, connected ...string) error {
	a := s.agents[id]
	acts, err := a.m.MayPropose(s.now, connected)
	s.do(a, acts)
	return err
}

func TestMachine_incumbentStays(t *testing.T) {
	s := started(t, "a", "b", "c")
	s.kill("a")
	s.run(2 * time.Second)
	must.Eq(t, "b", s.leader("b"))
	must.Eq(t, "b", s.leader("c"))
	s.start("a") // in place: the same allocation, the lowest index
	s.run(2 * time.Second)
	for _, id := range []string{"a", "b", "c"} {
		must.Eq(t, "b", s.leader(id))
	}
	must.Eq(t, "", s.bad)
}

func TestMachine_whoMayPropose(t *testing.T) {
	type world struct {
		hosts   []string          // a leads a ring of these
		happens func(s *sim)      // then this
		wait    time.Duration     // and this passes
		leader  map[string]string // agent to whom it follows
		form    map[string]string // who tries a ring of itself and that one
		formed  map[string]bool   // who succeeds
		reason  map[string]string // what MayPropose says
	}
	cases := map[string]world{
		"minority is cut off": {
			hosts:   []string{"a", "b", "c"},
			happens: func(s *sim) { s.isolate(true, "a") },
			wait:    5 * time.Second,
			leader:  map[string]string{"b": "b", "c": "b"},
			form:    map[string]string{"a": "a", "b": "c"},
			formed:  map[string]bool{"a": false, "b": true},
		},
		"half with the first host goes on": {
			hosts:   []string{"a", "b"},
			happens: func(s *sim) { s.isolate(true, "b") },
			wait:    5 * time.Second,
			leader:  map[string]string{"a": "a", "b": ""},
			form:    map[string]string{"a": "a"},
			formed:  map[string]bool{"a": true},
		},
		"half without it waits for Nomad": {
			hosts:   []string{"a", "b"},
			happens: func(s *sim) { s.isolate(true, "a") },
			wait:    5 * time.Second,
			leader:  map[string]string{"b": ""},
		},
		"and goes on once Nomad has dropped the other": {
			hosts: []string{"a", "b"},
			happens: func(s *sim) {
				s.isolate(true, "a")
				s.after(5*time.Second, func() { s.deregister("a") })
			},
			wait:   10 * time.Second,
			leader: map[string]string{"b": "b"},
			form:   map[string]string{"a": "a", "b": "b"},
			formed: map[string]bool{"a": false, "b": true},
		},
		"a dead host is no obstacle": {
			hosts:   []string{"a", "b"},
			happens: func(s *sim) { s.kill("a") },
			wait:    2 * time.Second,
			leader:  map[string]string{"b": "b"},
			form:    map[string]string{"b": "b"},
			formed:  map[string]bool{"b": true},
		},
		"a newcomer that cannot reach the ring starts none": {
			hosts: []string{"a"},
			happens: func(s *sim) {
				s.register("b")
				s.start("b")
				s.isolate(false, "b")
			},
			wait:   20 * time.Second,
			leader: map[string]string{"a": "a", "b": ""},
			form:   map[string]string{"a": "a"},
			formed: map[string]bool{"a": true},
		},
		"nor does a newcomer hold up the ring": {
			hosts: []string{"a", "b"},
			happens: func(s *sim) {
				s.register("c")
				s.start("c")
				s.isolate(false, "c")
			},
			wait:   2 * time.Second,
			form:   map[string]string{"a": "b"},
			formed: map[string]bool{"a": true},
		},
		"a leader that Nomad has dropped gives way": {
			hosts:   []string{"a", "b"},
			happens: func(s *sim) { s.deregister("a") },
			wait:    3 * time.Second,
			leader:  map[string]string{"a": "b", "b": "b"},
			form:    map[string]string{"b": "a"},
			formed:  map[string]bool{"b": true},
		},
		"the only host moves over": {
			hosts: []string{"a"},
			happens: func(s *sim) {
				s.deregister("a") // being stopped, and still there
				s.register("b")
				s.start("b")
			},
			wait:   4 * time.Second,
			leader: map[string]string{"a": "b", "b": "b"},
			form:   map[string]string{"b": "a"},
			formed: map[string]bool{"b": true},
		},
		"one that Nomad has dropped forms nothing": {
			hosts:   []string{"a"},
			happens: func(s *sim) { s.deregister("a") },
			wait:    5 * time.Second,
			leader:  map[string]string{"a": "a"},
			form:    map[string]string{"a": "a"},
			formed:  map[string]bool{"a": false},
			reason:  map[string]string{"a": "does not name this allocation"},
		},
		"without the registry nothing is formed": {
			hosts:   []string{"a", "b"},
			happens: func(s *sim) { s.away["a"], s.away["b"] = true, true },
			wait:    20 * time.Second,
			leader:  map[string]string{"a": "a", "b": "a"},
			form:    map[string]string{"a": "b"},
			formed:  map[string]bool{"a": false},
			reason:  map[string]string{"a": "the registry was last confirmed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := started(t, tc.hosts...)
			tc.happens(s)
			s.run(tc.wait)
			for _, id := range sortedKeys(tc.leader) {
				must.Eq(t, tc.leader[id], s.leader(id), must.Sprintf("%s\n%s", id, s.history()))
			}
			for _, id := range sortedKeys(tc.reason) {
				must.ErrorContains(t, s.mayForm(id, tc.hosts...), tc.reason[id])
			}
			for _, id := range sortedKeys(tc.form) {
				hosts := []string{id}
				if other := tc.form[id]; other != id {
					hosts = append(hosts, other)
				}
				must.Eq(t, tc.formed[id], s.form(id, 5*time.Second, hosts...), must.Sprintf("%s\n%s", id, s.history()))
			}
			must.Eq(t, "", s.bad)
			must.NoError(t, s.calm(20*time.Second), must.Sprint(s.history()))
			must.Eq(t, "", s.bad)
		})
	}
}

// TestMachine_droppedMajority: Nomad drops two of three hosts, which do not know it
// for a moment. From then on they can form no ring.
func TestMachine_droppedMajority(t *testing.T) {
	s := started(t, "a", "b", "c")
	s.isolate(false, "c")
	s.run(5 * time.Second)
	s.away["a"], s.away["b"] = true, true
	s.deregister("a")
	s.deregister("b")
	must.False(t, s.form("a", 1500*ms, "a", "b"), must.Sprint(s.history()))
	must.Eq(t, "c", s.leader("c"), must.Sprint(s.history()))
	must.True(t, s.form("c", 1500*ms, "c"), must.Sprint(s.history()))
	must.False(t, s.form("a", 1500*ms, "b", "a"), must.Sprint(s.history()))
	must.Eq(t, "", s.bad)
}

// TestMachine_registeredAnew: dropped hosts have lost their votes, even after they
// are registered again.
func TestMachine_registeredAnew(t *testing.T) {
	s := started(t, "a", "b", "c")
	s.isolate(false, "c")
	s.deregister("a")
	s.deregister("b")
	s.run(3 * time.Second)
	must.True(t, s.form("c", 2*time.Second, "c"), must.Sprint(s.history()))
	s.register("a")
	s.register("b")
	s.run(3 * time.Second)
	must.False(t, s.form("a", 2*time.Second, "a", "b"), must.Sprint(s.history()))
	must.False(t, s.form("b", 2*time.Second, "b", "a"), must.Sprint(s.history()))
	must.Eq(t, "", s.bad)
	must.NoError(t, s.calm(20*time.Second))
}

// TestMachine_firstRing: if all agents answer, there is no wait.
func TestMachine_firstRing(t *testing.T) {
	s := newSim(1)
	s.register("a")
	s.start("a")
	s.run(100 * ms)
	must.NoError(t, s.mayForm("a"))
	must.True(t, s.form("a", 100*ms, "a"))
}

// TestMachine_mayFormAsks: most of a ring dies at once, and nothing reports it.
func TestMachine_mayFormAsks(t *testing.T) {
	s := started(t, "a", "b", "c", "d")
	s.kill("b")
	s.kill("c")
	s.kill("d")
	must.ErrorContains(t, s.mayForm("a"), "has not answered")
	s.run(2 * time.Second)
	must.NoError(t, s.mayForm("a"))
	must.True(t, s.form("a", 2*time.Second, "a"))
	must.Eq(t, "", s.bad)
}

func TestMachine_form(t *testing.T) {
	s := started(t, "a", "b")
	a, b := s.agents["a"].m, s.agents["b"].m
	err := func(acts []Action) error {
		for _, act := range acts {
			if f, ok := act.(Formed); ok {
				return f.Err
			}
		}
		return errors.New("not yet")
	}
	must.ErrorIs(t, err(b.Propose(s.now, 9, []string{"b"})), ErrNotLeader)
	must.ErrorIs(t, s.mayForm("b"), ErrNotLeader)
	must.ErrorIs(t, err(a.Propose(s.now, 1, []string{"a"})), ErrGeneration)
	must.ErrorContains(t, err(a.Propose(s.now, 2, nil)), "needs a host")
	must.ErrorContains(t, err(a.Propose(s.now, 2, []string{"a", "b"})), "not yet")
	must.ErrorContains(t, a.Pending(s.now), "host b has not agreed yet")
	must.ErrorIs(t, err(a.Propose(s.now, 3, []string{"a", "b"})), ErrSuperseded)
	must.ErrorContains(t, err(a.Withdraw(s.now)), "given up")
	must.NoError(t, a.Pending(s.now))
	must.Eq(t, 3, a.Rings().Latest().Generation) // may have been agreed to
}

func TestMachine_why(t *testing.T) {
	s := started(t, "a")
	must.NoError(t, s.agents["a"].m.Why())
	s.register("b")
	s.start("b")
	s.isolate(false, "b")
	s.run(3 * time.Second)
	must.ErrorContains(t, s.agents["b"].m.Why(), "allocation a is registered at a but has not answered")
	s.deregister("b")
	s.run(3 * time.Second)
	must.ErrorIs(t, s.agents["b"].m.Why(), errNotEligible)
}

// TestMachine_bounded: a long job's old entries are removed.
func TestMachine_bounded(t *testing.T) {
	s := started(t, "a")
	for range 50 {
		s.register("b")
		s.start("b")
		s.run(2 * time.Second)
		s.tryForm("a", true)
		s.run(time.Second)
		s.deregister("b")
		s.run(time.Second)
		s.kill("b")
		s.tryForm("a", true)
		s.run(5 * time.Second)
	}
	m := s.agents["a"].m
	must.Eq(t, "", s.bad)
	must.Greater(t, 90, len(s.formed))
	must.Less(t, 3, len(m.met))
	must.Less(t, 3, len(m.dead))
	must.Less(t, 3, len(m.rings.Pending))
	must.Less(t, 5, len(m.calls))
}
