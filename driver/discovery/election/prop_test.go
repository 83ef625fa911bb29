// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestProperty_OneRing lets everything go wrong that can, in random order, and
// asks that no two rings are ever formed side by side, and that the agents find
// one leader and a ring of all once things calm down.
func TestProperty_OneRing(t *testing.T) {
	rapid.Check(t, oneRing)
}

// FuzzOneRing looks for the same with a fuzzer's eyes.
func FuzzOneRing(f *testing.F) { f.Fuzz(rapid.MakeFuzz(oneRing)) }

func oneRing(t *rapid.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	s := newSim(rapid.Uint64().Draw(t, "seed"))
	s.loss = rapid.SampledFrom([]float64{0, 0, 0.02, 0.2}).Draw(t, "loss")
	for _, id := range ids[:rapid.IntRange(1, 4).Draw(t, "agents")] {
		s.register(id)
		s.after(s.random(50*ms), func() { s.start(id) })
	}
	if rapid.Bool().Draw(t, "quiet start") {
		s.run(4 * time.Second)
		for _, id := range ids {
			s.tryForm(id, true)
		}
	}
	steps := rapid.IntRange(0, 40).Draw(t, "steps")
	for range steps {
		id := rapid.SampledFrom(ids).Draw(t, "id")
		other := rapid.SampledFrom(ids).Draw(t, "other")
		switch op := rapid.IntRange(0, 17).Draw(t, "op"); op {
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
			if a := s.agents[id]; a != nil && a.alive && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				s.do(a, a.m.Leave(s.now))
			}
		default: // whoever leads wants another ring
			for _, o := range ids {
				s.tryForm(o, op == 14)
			}
		}
		wait := rapid.SampledFrom([]time.Duration{0, 3 * ms, 30 * ms, 300 * ms, 3 * time.Second}).Draw(t, "wait")
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
