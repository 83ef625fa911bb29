// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestProperty_OneRing causes every kind of failure in random order. No two
// independent rings may ever form, and once the failures end, the agents must find
// one leader and a ring of all.
func TestProperty_OneRing(t *testing.T) {
	rapid.Check(t, oneRing)
}

// FuzzOneRing tests the same property with the fuzzer's inputs.
func FuzzOneRing(f *testing.F) { f.Fuzz(rapid.MakeFuzz(oneRing)) }

func oneRing(t *rapid.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	s := newSim(rapid.Uint64().Draw(t, "seed"))
	s.loss = []float64{0, 0, 0.02, 0.2}[even(t, "loss", 4)]
	s.first = even(t, "asked first", 3)
	for _, id := range ids[:1+even(t, "agents", 4)] {
		s.register(id)
		s.after(s.random(50*ms), func() { s.start(id) })
	}
	if even(t, "quiet start", 3) > 0 {
		s.run(4 * time.Second)
		for _, id := range ids {
			s.tryForm(id, true)
		}
	}
	steps := even(t, "steps", 40)
	for range steps {
		id := ids[even(t, "id", len(ids))]
		other := ids[even(t, "other", len(ids))]
		switch op := even(t, "op", 22); op {
		case 0: // a process dies; Nomad does not know yet
			s.kill(id)
		case 1, 2: // Nomad starts or restarts it in place
			if _, ok := s.reg[id]; !ok {
				s.register(id)
			}
			s.after(s.random(500*ms), func() { s.start(id) })
		case 3: // Nomad stops it: out of the registry first
			s.deregister(id)
			s.after(s.random(3*time.Second), func() { s.kill(id) })
		case 4: // its node is taken for lost: it lives on
			s.deregister(id)
		case 5: // and comes back
			if a := s.agents[id]; a != nil && a.alive && s.reg[id].AllocID == "" {
				s.register(id)
			}
		case 6, 7:
			s.cut[link(id, other)] = id != other
		case 8: // one agent cut off from all
			for _, o := range ids {
				s.cut[link(id, o)] = o != id
			}
		case 9: // and from Nomad too, which drops it in time
			for _, o := range ids {
				s.cut[link(id, o)] = o != id
			}
			s.away[id] = true
			s.after(s.random(10*time.Second), func() {
				if s.away[id] {
					s.deregister(id)
				}
			})
		case 10:
			delete(s.cut, link(id, other))
		case 11:
			clear(s.cut)
			clear(s.away)
		case 12:
			s.away[id] = true
		case 13:
			if a := s.agents[id]; a != nil && a.alive && even(t, "leave", 4) == 0 {
				s.do(a, a.m.Leave(s.now))
			}
		case 14: // two halves that do not hear each other
			half := make(map[string]bool)
			for _, o := range ids {
				half[o] = even(t, "half", 2) == 0
			}
			for _, o := range ids {
				for _, p := range ids {
					s.cut[link(o, p)] = half[o] != half[p]
				}
			}
		case 18, 19: // some are cut off from the others, and dropped by Nomad
			for _, o := range ids {
				if even(t, "rack", 2) == 0 {
					for _, p := range ids {
						s.cut[link(o, p)] = o != p
					}
					s.deregister(o)
				}
			}
		case 15: // a session breaks for no reason
			if a := s.agents[id]; a != nil && a.alive {
				s.do(a, a.m.LeaderLost(s.now, a.m.Leadership().Term))
			}
		case 16: // all do
			for _, o := range ids {
				if a := s.agents[o]; a != nil && a.alive {
					s.do(a, a.m.LeaderLost(s.now, a.m.Leadership().Term))
				}
			}
		default: // the leader wants another ring
			for _, o := range ids {
				s.tryForm(o, op == 17)
			}
		}
		wait := []time.Duration{0, 3 * ms, 30 * ms, 300 * ms, 3 * time.Second}[even(t, "wait", 5)]
		s.run(s.random(wait))
		if s.bad != "" {
			t.Fatalf("%s\n%s", s.bad, s.history())
		}
	}
	err := s.calm(30 * time.Second)
	if s.bad != "" {
		t.Fatalf("%s\n%s", s.bad, s.history())
	}
	if err != nil {
		t.Fatalf("not calm: %v\n%s", err, s.history())
	}
}

// even draws one of n numbers, each as likely as the others: rapid's own
// generators prefer small ones, and would hardly ever get to the later cases.
func even(t *rapid.T, label string, n int) int {
	x := rapid.Uint32().Draw(t, label)
	return int(uint64(x*2654435761) * uint64(n) >> 32)
}
