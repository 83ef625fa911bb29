// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// lostHost reports whether Nomad knows that the host trains no more: its process
// is dead, or its registration has gone.
func (s *sim) lostHost(h Host) bool {
	a := s.agents[h.AllocID]
	if a == nil || !a.alive || a.process != h.Process {
		return true
	}
	p, ok := s.reg[h.AllocID]
	return !ok || p.Registered != h.Registered
}

// check holds a newly formed ring against all formed before it: it must descend
// from each, unless no host of that one is left in Nomad's eyes.
func (s *sim) check(a *agent, done Formed) {
	ring := done.Ring
	f := formed{ring: ring, bases: done.on}
	for _, old := range s.formed {
		if s.descends(f, old.ring) {
			continue
		}
		for _, h := range old.ring.Hosts {
			if !s.lostHost(h) && s.bad == "" {
				s.bad = fmt.Sprintf("at %s %s formed %v on %v beside %v, whose host %s lives", s.now, a.id, ring, done.on, old.ring, h.AllocID)
			}
		}
	}
	for _, old := range s.formed {
		if old.ring.Compare(ring) == 0 && s.bad == "" {
			s.bad = fmt.Sprintf("%v formed twice", ring)
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

// calm heals everything and reports whether the agents agree within d.
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
		return fmt.Errorf("leader %s forms no ring: %w", leader, s.agents[leader].m.Forming(s.now))
	}
	if got := s.formed[n].ring; len(got.Hosts) != len(live) {
		return fmt.Errorf("ring %v has not all of %v", got, live)
	}
	return nil
}

func (s *sim) history() string { return strings.Join(s.log, "\n") }
