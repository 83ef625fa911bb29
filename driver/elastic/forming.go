// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"time"
)

// reconcileNoRing forms the next ring when there is none.
func (m *Machine) reconcileNoRing(none *noRing) {
	if m.restarts || !m.stateHeld() {
		m.reconcileNoState(none)
		return
	}
	plans := [][]Member{m.layout(ofStaying(m.usable))} // all slots that stay, once their newcomers have arrived
	if m.keepsSpares() {
		plans = append(plans, m.layout(ofStaying(isThere))) // else those of them that are live, and spares that are ready
	}
	plans = append(plans, m.layout(ofStaying(live))) // else those of them that are live
	if !m.handoffExpired() {
		plans = append(plans,
			m.handoffPlan(), // else with slots that are leaving
			m.layout(live))  // else all live slots, until newcomers arrive
	}
	for _, plan := range plans {
		if len(plan) >= m.opt.MinNP && m.holdsState(plan) && m.ready(plan) {
			m.form(plan)
			return
		}
	}
	m.awaitProcesses(none)
}

// awaitProcesses starts newcomers while too few slots have the state for a ring of their
// own.
func (m *Machine) awaitProcesses(none *noRing) {
	m.admitNewcomers()
	m.admitBesideHolders()
	want := m.layout(ofStaying(m.usable))
	if !m.holdsState(want) && !m.handoffExpired() {
		want = m.handoffPlan()
	}
	if !m.holdsState(want) {
		want = nil // rank 0 can't hold the state, so no ring can form
	}
	if len(want) >= m.opt.MinNP {
		m.stageNewcomers(want)
	}
	m.enforceElasticTimeout(none, m.opt.MinNP, len(want))
}

// ready reports whether each newcomer of a plan has arrived, and can take its place in this
// plan.
func (m *Machine) ready(plan []Member) bool {
	for _, mem := range plan {
		s := m.slot(mem.Proc.Slot)
		if m.isNewcomer(mem) && (s.state != Arrived || s.stopping || !m.fits(s, mem)) {
			return false
		}
	}
	return true
}

// reconcileNoState forms a ring when no process has the state: the first ring, one after
// the state was lost, or any ring if processes can't change theirs.
func (m *Machine) reconcileNoState(none *noRing) {
	m.admitNewcomers()
	need := m.opt.NP
	if m.last != nil {
		if !m.anyStaying() {
			return // the job is being stopped
		}
		if m.opt.OnRingLost == Fail && !m.restarts {
			m.decide(End{Reason: m.ringLost()})
			return
		}
		need = m.opt.MinNP
		// Waiting processes have an old state, or none: the script must load its
		// checkpoint.
		m.each(func(_ *host, p Proc, s *slot) {
			if s.state == Waiting {
				m.stop(p, true, "the training state is lost; starting again from the script's checkpoint")
			}
		})
	}
	want := m.layout(ofStaying(m.usable))
	m.enforceElasticTimeout(none, need, len(want))
	if len(want) >= need && m.stageNewcomers(want) && (!m.restarts || m.oldGone()) {
		m.form(want)
	}
}

// ringLost returns the reason for ending a job whose training state is lost.
func (m *Machine) ringLost() string {
	failure := ""
	if m.lastFailure != "" {
		failure = ", and the last failure was " + m.lastFailure
	}
	return fmt.Sprintf("no process that holds the training state is left after ring %d%s; on_ring_lost = \"restart\" starts "+
		"a script again that resumes from its own checkpoint", m.last.Generation, failure)
}

// enforceElasticTimeout ends the job if there were too few processes for ElasticTimeout.
func (m *Machine) enforceElasticTimeout(none *noRing, need, have int) {
	if have >= need {
		none.tooFew = time.Time{}
		return
	}
	if none.tooFew.IsZero() {
		none.tooFew = m.now
	}
	if m.wake(none.tooFew.Add(m.opt.ElasticTimeout)) && len(m.hosts) > 0 {
		m.decide(End{Reason: fmt.Sprintf("waited %s for %d processes, there are %d (elastic_timeout)", m.opt.ElasticTimeout, need, have)})
	}
}

// form forms the next ring from a plan.
func (m *Machine) form(plan []Member) {
	gen := m.opt.Floor + 1
	initial := !m.holdsState(plan) && !m.restarts
	if m.last != nil {
		gen = max(gen, m.last.Generation+1)
		if m.opt.ResetLimit > 0 && m.resets >= m.opt.ResetLimit {
			m.decide(End{Reason: fmt.Sprintf("%s was shutdown because number of resets during elastic job exceeded limit: %d",
				m.opt.Framework.Name, m.opt.ResetLimit)})
			return
		}
		m.resets++
	}
	for i := range plan {
		s := m.slot(plan[i].Proc.Slot)
		s.state, s.generation, s.up = InRing, gen, false
		s.syncedSince = plan[i].SyncedSince
		if initial {
			s.syncedSince, plan[i].SyncedSince = gen, gen
		}
	}
	ring := &Ring{Generation: gen, Term: m.term, Members: plan, Restarts: m.restarts}
	if m.replicated() {
		ring.Replica = m.opt.Replica
	}
	m.startForming(ring)
	m.each(func(_ *host, _ Proc, s *slot) {
		if s.state == Waiting {
			s.syncedSince = 0 // the ring continues without it
		}
	})
	m.wake(m.now.Add(m.opt.FormTimeout))
	m.do(Form{Ring: m.last.clone()})
}
