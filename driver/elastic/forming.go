// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"time"
)

// gather forms the next ring when there is none.
func (m *Machine) gather(p *noRing) {
	alive := false
	m.each(func(_ *host, _ Proc, s *slot) { alive = alive || s.since > 0 && s.state != Down && !s.stopping })
	if !alive {
		m.gatherAnew(p)
		return
	}
	for _, plan := range [][]Member{
		m.layout(staying(m.usable)),  // all who stay, if the newcomers among them are there
		m.layout(staying(live)),      // else those who stay and are there
		m.handOver(),                 // else also those who leave
		m.layoutIf(!m.letGo(), live), // else whoever is there, until somebody comes
	} {
		if len(plan) >= m.opt.MinNP && m.holdsState(plan) && m.here(plan) {
			m.form(plan)
			return
		}
	}
	// Too few. Those who wait keep the state while newcomers start.
	m.admit()
	m.admitHolders()
	want := m.layout(staying(m.usable))
	if !m.holdsState(want) {
		want = m.handOver()
	}
	if !m.holdsState(want) {
		want = nil // and can't form, however many they are
	}
	if len(want) >= m.opt.MinNP {
		m.stage(want)
	}
	m.waitFor(p, m.opt.MinNP, len(want))
}

func (m *Machine) layoutIf(cond bool, ok func(*host, *slot) bool) []Member {
	if !cond {
		return nil
	}
	return m.layout(ok)
}

// here says whether a plan needs nobody who has not arrived for this very
// place.
func (m *Machine) here(plan []Member) bool {
	for _, mem := range plan {
		s := m.slot(mem.Proc.Slot)
		if m.fresh(mem) && (s.state != Arrived || s.stopping || s.assign != mem.Assignment) {
			return false
		}
	}
	return true
}

// gatherAnew forms a ring when nobody holds the state: the first one, or one
// after the state was lost.
func (m *Machine) gatherAnew(none *noRing) {
	m.admit()
	need := m.opt.NP
	if m.last != nil {
		if !m.anyStaying() {
			return // the job is being stopped
		}
		if m.opt.OnRingLost == Fail {
			m.decide(End{Reason: fmt.Sprintf("no process that holds the training state is left after ring %d; "+
				"set on_ring_lost = \"restart\" for a script that resumes from its own checkpoint", m.last.Generation)})
			return
		}
		need = m.opt.MinNP
		// Who waits holds an old state, or none: the script must load its
		// checkpoint.
		m.each(func(_ *host, p Proc, s *slot) {
			if s.state == Waiting {
				m.stop(p, true, "the training state is lost; starting again from the script's checkpoint")
			}
		})
	}
	want := m.layout(staying(m.usable))
	if len(want) < need {
		m.waitFor(none, need, len(want))
		return
	}
	none.tooFew = time.Time{}
	if m.stage(want) {
		m.form(want)
	}
}

// waitFor ends the job when too few processes have been there for too long.
func (m *Machine) waitFor(p *noRing, need, have int) {
	if have >= need {
		p.tooFew = time.Time{}
		return
	}
	if p.tooFew.IsZero() {
		p.tooFew = m.now
	}
	if m.wake(p.tooFew.Add(m.opt.ElasticTimeout)) && len(m.hosts) > 0 {
		m.decide(End{Reason: fmt.Sprintf("waited %s for %d processes, there are %d (elastic_timeout)", m.opt.ElasticTimeout, need, have)})
	}
}

// form makes the plan the ring.
func (m *Machine) form(plan []Member) {
	gen := m.opt.Floor + 1
	anew := !m.holdsState(plan)
	if m.last != nil {
		gen = max(gen, m.last.Generation+1)
		if m.opt.ResetLimit > 0 && m.resets >= m.opt.ResetLimit {
			m.decide(End{Reason: fmt.Sprintf("Horovod was shutdown because number of resets during elastic job exceeded limit: %d", m.opt.ResetLimit)})
			return
		}
		m.resets++
	}
	for i := range plan {
		s := m.slot(plan[i].Proc.Slot)
		s.state, s.gen, s.up = InRing, gen, false
		if anew {
			s.since, plan[i].Since = gen, gen
		}
	}
	m.startForming(&Ring{Generation: gen, Term: m.term, Members: plan})
	m.each(func(_ *host, _ Proc, s *slot) {
		if s.state == Waiting {
			s.since = 0 // the ring trains on without it
		}
	})
	m.wake(m.now.Add(m.opt.FormTimeout))
	m.do(Form{Ring: m.last.clone()})
}
