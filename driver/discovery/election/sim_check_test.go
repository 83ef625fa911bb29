// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// lost reports whether no host of the ring was left, as known to Nomad or to
// anybody who asked, when the registry had the index and at the given time. Each
// host was dropped, or dead.
func (s *sim) lost(r Ring, index uint64, at time.Duration) bool {
	for _, h := range r.Hosts {
		gone, dropped := s.gone[registration{h.AllocID, h.Registered}]
		died, dead := s.died[h.process()]
		if (!dropped || gone > index) && (!dead || died > at) && h.Registered != 0 {
			return false
		}
	}
	return true
}

// check compares a newly formed ring with all formed before. Of any two rings, one
// must descend from the other, or nothing of the earlier one was left.
func (s *sim) check(a *agent, done Formed) {
	f := formed{ring: done.Ring, bases: done.on, index: done.index, at: s.now}
	for _, old := range s.formed {
		switch {
		case s.bad != "":
		case old.ring.Compare(f.ring) == 0:
			s.bad = fmt.Sprintf("%v formed twice", f.ring)
		case s.descends(f, old.ring), s.descends(old, f.ring):
		case s.lost(old.ring, f.index, f.at):
		case old.index > f.index && s.lost(f.ring, old.index, old.at):
		default:
			s.bad = fmt.Sprintf("at %s %s formed %v on %v at %d, which is independent of %v formed at %d", s.now, a.id, f.ring, f.bases, f.index, old.ring, old.index)
		}
	}
	s.formed = append(s.formed, f)
}

func (s *sim) descends(f formed, from Ring) bool {
	for _, b := range f.bases {
		if b.Compare(from) == 0 {
			return true
		}
		for _, o := range s.formed {
			if o.ring.Compare(b) == 0 && s.descends(o, from) {
				return true
			}
		}
	}
	return false
}

// calm ends all failures and reports whether the agents agree within d.
func (s *sim) calm(d time.Duration) error {
	s.cut, s.away, s.loss = make(map[[2]string]bool), make(map[string]bool), 0
	s.run(11 * time.Second) // what was under way
	for _, id := range sortedKeys(s.agents) {
		if _, ok := s.reg[id]; !ok && s.agents[id].alive {
			s.register(id) // its node is back
		}
	}
	s.run(d)
	var live []string
	stands := false
	for _, id := range sortedKeys(s.agents) {
		if s.agents[id].alive {
			live = append(live, id)
			stands = stands || !s.agents[id].m.leaving
		}
	}
	if !stands {
		return nil
	}
	leader := s.agents[live[0]].m.Leadership().Leader.AllocID
	for _, id := range live {
		if l := s.agents[id].m.Leadership().Leader.AllocID; l == "" || l != leader {
			return fmt.Errorf("%s follows %q, %s follows %q", live[0], leader, id, l)
		}
	}
	if !slices.Contains(live, leader) {
		return fmt.Errorf("all follow %s, which is dead", leader)
	}
	n := len(s.formed)
	for range 3 { // the first may learn of rings that were forgotten
		if len(s.formed) == n {
			s.tryForm(s.agents[live[0]].m.Leadership().Leader.AllocID, true)
			s.run(10 * time.Second)
		}
	}
	if len(s.formed) == n {
		return fmt.Errorf("leader %s forms no ring: %w", leader, s.agents[leader].m.Pending(s.now))
	}
	if got := s.formed[n].ring; len(got.Hosts) != len(live) {
		return fmt.Errorf("ring %v has not all of %v", got, live)
	}
	return nil
}

func (s *sim) history() string { return strings.Join(s.log, "\n") }
