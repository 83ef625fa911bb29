// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"time"
)

// noticeDelay is how long a notice waits for a ring that is still forming.
const noticeDelay = 5 * time.Second

// reconcile compares the current state with the wanted one and acts on the difference. It
// is level-triggered: a missed action is due again.
func (m *Machine) reconcile() {
	if m.end == nil && !m.quorum.OK {
		return // this leader's view may be out of date; training goes on
	}
	if m.end == nil {
		m.observeRing()
		m.countHosts()
		if none, ok := m.phase.(*noRing); ok && m.wake(m.formAfter) {
			m.reconcileNoRing(none)
		} else if in := m.intact(); in != nil && m.restarts {
			m.reconcileNext(in)
		} else if in != nil {
			m.reconcileRing(in)
		}
	}
	if m.end != nil {
		m.endProcesses(m.end)
	} else {
		m.releaseHosts()
	}
}

// reconcileRing prepares a better ring while the current one trains.
func (m *Machine) reconcileRing(in *intact) {
	m.admitNewcomers()
	want, remain := m.layout(ofStaying(m.usable)), m.layout(ofStaying(live))
	switch {
	case !m.membersLeaving():
		m.leavingSince = time.Time{}
		if m.stageNewcomers(want) && !m.sameSlots(want, m.last.Members) {
			m.notify(in)
		}
		if m.Up() {
			m.stageSpares()
		}
	case len(remain) >= m.opt.MinNP && m.carriesOn(remain):
		// Leaving members go now. Newcomers start again for the smaller ring, unless all of
		// them have arrived.
		m.notify(in)
	default:
		// Too few members would remain, so leaving ones stay until newcomers have the
		// state.
		plan := m.handoffPlan()
		if m.stageNewcomers(plan) && (!m.sameSlots(plan, m.last.Members) || m.handoffExpired()) {
			m.notify(in)
		}
	}
}

func (m *Machine) membersLeaving() bool {
	return slices.ContainsFunc(m.last.Members, func(mem Member) bool {
		return m.leaves(mem.Proc.Slot)
	})
}

// notify notifies rank 0 of a change, or all members if they can't change their ring. It
// repeats the notice until a member leaves the ring, because Horovod drops notices that
// come during a reset (horovod/common/elastic.py, on_reset).
func (m *Machine) notify(in *intact) {
	if !m.Up() && !m.wake(in.formed.Add(noticeDelay)) {
		return
	}
	recipients := m.last.Members
	if m.restarts {
		m.asked = m.last.Generation
	} else {
		recipients = recipients[:1]
		if !m.rootListens(in) {
			return
		}
	}
	if in.notified.IsZero() || m.wake(in.notified.Add(m.opt.NotifyInterval)) {
		in.notified, in.told = m.now, true
		m.wake(m.now.Add(m.opt.NotifyInterval))
		for _, mem := range recipients {
			m.do(Notify{Proc: mem.Proc, Generation: m.last.Generation})
		}
	}
}

// rootListens reports whether rank 0 accepts notices. If it does not after SyncGrace,
// it warns once.
func (m *Machine) rootListens(in *intact) bool {
	root := m.last.Members[0].Proc
	if s := m.proc(root); s != nil && s.notifiable {
		return true
	}
	if m.wake(in.formed.Add(m.opt.SyncGrace)) && !m.warnedUnnotifiable {
		m.warnedUnnotifiable = true
		m.emit(root.Slot.Host, "the ring can't be resized: rank 0 has not entered %s; does the script use it?", m.opt.Framework.Entry)
	}
	return false
}
