// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// reconcile compares what is with what should be and acts on the difference.
// It is level-triggered: an action that was missed is due again.
func (m *Machine) reconcile() {
	if m.ended {
		return
	}
	if m.outcome == nil {
		if !m.quorum.OK {
			// What this leader knows may be old. Training goes on.
			return
		}
		if m.ring != nil && m.resend {
			m.resend = false
			m.do(Form{Ring: m.ring.clone()})
		}
		if m.ring != nil {
			m.watch()
		}
		if m.ring != nil {
			m.pursue()
		} else {
			m.gather()
		}
	}
	if m.outcome != nil {
		m.finish()
		return
	}
	m.release()
}

// pursue works towards a better ring while the present one trains.
func (m *Machine) pursue() {
	if !m.dissolving.IsZero() {
		return
	}
	m.admit()
	want := m.layout(staying(m.usable))
	leaving := false
	for _, mem := range m.ring.Members {
		if h := m.hosts[mem.Proc.Slot.Host]; h != nil && (!h.staying() || m.slot(mem.Proc.Slot).leaving) {
			leaving = true
		}
	}
	switch remain := m.layout(staying(live)); {
	case !leaving:
		m.leaveFrom = time.Time{}
		if m.stage(want) && !sameSlots(want, m.ring.Members) {
			m.notify()
		}
	case len(remain) >= m.opt.MinNP:
		// Those who leave go at once; newcomers, unless they have all
		// arrived, start again for the smaller ring.
		m.notify()
	default:
		// Too few would remain: those who leave stay until others have come
		// and been given the state.
		over := m.overlap()
		if m.stage(over) && (!sameSlots(over, m.ring.Members) || m.letGo()) {
			m.notify()
		}
	}
}

// notify tells rank 0 that there is a change, again and again until a member
// leaves the ring: Horovod drops notices that come at a bad moment
// (horovod/common/elastic.py, on_reset).
func (m *Machine) notify() {
	if m.up.IsZero() && !m.wake(m.formed.Add(5*time.Second)) {
		return
	}
	mem := m.ring.Members[0]
	if s := m.proc(mem.Proc); s == nil || !s.notifiable {
		if m.wake(m.formed.Add(m.opt.SyncGrace)) && !m.muteTold {
			m.muteTold = true
			m.tell(mem.Proc.Slot.Host, "the ring can't be resized: rank 0 has not entered hvd.elastic.run; does the script use it?")
		}
		return
	}
	if m.notified.IsZero() || m.wake(m.notified.Add(m.opt.NotifyInterval)) {
		m.notified = m.now
		m.wake(m.now.Add(m.opt.NotifyInterval))
		m.do(Notify{Proc: mem.Proc, Generation: m.ring.Generation})
	}
}
