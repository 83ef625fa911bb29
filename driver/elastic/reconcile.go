// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// reconcile compares what is with what should be and acts on the difference.
// It is level-triggered: an action that was missed is due again.
func (m *Machine) reconcile() {
	if m.end == nil && !m.quorum.OK {
		return // what this leader knows may be old, and training goes on
	}
	if m.end == nil {
		m.watch()
		switch p := m.phase.(type) {
		case *noRing:
			m.gather(p)
		case *forming:
			m.pursue(&p.intact)
		case *training:
			m.pursue(&p.intact)
		}
	}
	if m.end != nil {
		m.finish(m.end)
	} else {
		m.release()
	}
}

// pursue works towards a better ring while the present one trains.
func (m *Machine) pursue(in *intact) {
	m.admit()
	want := m.layout(staying(m.usable))
	leaving := false
	for _, mem := range m.last.Members {
		if h := m.hosts[mem.Proc.Slot.Host]; h != nil && (!h.staying() || m.slot(mem.Proc.Slot).leaving) {
			leaving = true
		}
	}
	switch remain := m.layout(staying(live)); {
	case !leaving:
		m.leaveFrom = time.Time{}
		if m.stage(want) && !sameSlots(want, m.last.Members) {
			m.notify(in)
		}
	case len(remain) >= m.opt.MinNP:
		// Those who leave go at once; newcomers, unless they have all
		// arrived, start again for the smaller ring.
		m.notify(in)
	default:
		// Too few would remain: those who leave stay until others have come
		// and been given the state.
		over := m.overlap()
		if m.stage(over) && (!sameSlots(over, m.last.Members) || m.letGo()) {
			m.notify(in)
		}
	}
}

// notify tells rank 0 that there is a change, again and again until a member
// leaves the ring: Horovod drops notices that come at a bad moment
// (horovod/common/elastic.py, on_reset).
func (m *Machine) notify(in *intact) {
	if !m.Up() && !m.wake(in.formed.Add(5*time.Second)) {
		return
	}
	mem := m.last.Members[0]
	if s := m.proc(mem.Proc); s == nil || !s.notifiable {
		if m.wake(in.formed.Add(m.opt.SyncGrace)) && !m.muteTold {
			m.muteTold = true
			m.tell(mem.Proc.Slot.Host, "the ring can't be resized: rank 0 has not entered hvd.elastic.run; does the script use it?")
		}
		return
	}
	if in.notified.IsZero() || m.wake(in.notified.Add(m.opt.NotifyInterval)) {
		in.notified = m.now
		m.wake(m.now.Add(m.opt.NotifyInterval))
		m.do(Notify{Proc: mem.Proc, Generation: m.last.Generation})
	}
}
