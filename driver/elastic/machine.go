// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

// Machine is the membership state machine of one job. Use New.
type Machine struct {
	opt   Options
	term  uint64
	now   time.Time
	hosts map[HostID]*host

	phase   phase // of the newest ring
	last    *Ring // the newest ring; the present one in every phase but noRing
	unheard bool  // some hosts of it may not have heard of it

	end *ending // nil while the job goes on

	pending   time.Time // first newcomer not yet admitted
	lastJoin  time.Time // latest of them
	leaveFrom time.Time // first host of the present ring to leave

	reports  bool // the script reports its steps
	muteTold bool // said that rank 0 can't be notified
	quorum   Quorum
	resets   int

	wakeAt  time.Time
	actions []Action
}

// New returns a machine for the leader of the given term. It starts empty:
// hosts that register tell it what it must know.
func New(opt Options, term uint64) *Machine {
	opt.setDefaults()
	return &Machine{opt: opt, term: term, hosts: map[HostID]*host{}, phase: &noRing{}, quorum: Quorum{OK: true}}
}

// Step takes in one event and returns what is to be done, in order. now must
// not go backwards; where it does, the machine's time stands still.
func (m *Machine) Step(now time.Time, ev Event) []Action {
	if now.After(m.now) {
		m.now = now
	}
	m.wakeAt, m.actions = time.Time{}, nil
	m.apply(ev)
	m.reconcile()
	return m.actions
}

// Deadline is when the machine wants a Tick, zero when never.
func (m *Machine) Deadline() time.Time { return m.wakeAt }

// Ring returns the ring that trains, forms or dissolves now, or nil.
func (m *Machine) Ring() *Ring {
	if _, none := m.phase.(*noRing); none {
		return nil
	}
	return m.last
}

// Last returns the newest ring there was, or nil.
func (m *Machine) Last() *Ring { return m.last }

// Up says whether all members of the present ring finished the rendezvous.
func (m *Machine) Up() bool {
	_, ok := m.phase.(*training)
	return ok
}

// Ending says that the job's outcome is decided: its processes are brought to an
// end, and make no steps.
func (m *Machine) Ending() bool { return m.end != nil }

// Resets is how many rings replaced an earlier one.
func (m *Machine) Resets() int { return m.resets }

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) tell(h HostID, format string, args ...any) {
	m.do(Story{Host: h, Text: fmt.Sprintf(format, args...)})
}

// wake asks for a Tick at t, or says whether t has come.
func (m *Machine) wake(t time.Time) bool {
	if !m.now.Before(t) {
		return true
	}
	if m.wakeAt.IsZero() || t.Before(m.wakeAt) {
		m.wakeAt = t
	}
	return false
}

func (m *Machine) slot(s SlotID) *slot {
	h := m.hosts[s.Host]
	if h == nil || s.Local < 0 || s.Local >= len(h.slots) {
		return nil
	}
	return &h.slots[s.Local]
}

// proc returns the slot that runs p now, nil when p is gone.
func (m *Machine) proc(p Proc) *slot {
	s := m.slot(p.Slot)
	if s == nil || s.inc != p.Incarnation || s.state == Down {
		return nil
	}
	return s
}

func (m *Machine) stop(p Proc, kill bool, format string, args ...any) {
	s := m.proc(p)
	if s == nil || s.stopping {
		return
	}
	s.stopping = true
	m.do(Stop{Proc: p, Kill: kill, Reason: fmt.Sprintf(format, args...)})
}

// each calls f for every slot in a fixed order.
func (m *Machine) each(f func(h *host, p Proc, s *slot)) {
	for _, h := range m.sorted() {
		for l := range h.slots {
			s := &h.slots[l]
			f(h, Proc{Slot: SlotID{h.id, l}, Incarnation: s.inc}, s)
		}
	}
}

func (m *Machine) apply(ev Event) {
	switch ev := ev.(type) {
	case HostJoined:
		m.join(ev.Info)
	case HostLeaving:
		m.leave(ev)
	case HostSlots:
		m.resize(ev)
	case HostLost:
		delete(m.hosts, ev.Host)
		if slices.Contains(m.Ring().Hosts(), ev.Host) {
			m.forgetNotice()
		}
	case SlotArrived:
		if s := m.proc(ev.Proc); s != nil && s.state == Starting {
			s.state = Arrived
		}
	case SlotWaiting:
		m.waiting(ev)
	case SlotUp:
		if s := m.proc(ev.Proc); s != nil && s.state == InRing && s.gen == ev.Generation {
			s.up = true
		}
	case SlotNotifiable:
		if s := m.proc(ev.Proc); s != nil {
			s.notifiable = true
		}
	case Trained:
		m.reports = true
		if r := m.Ring(); r != nil && r.Generation == ev.Generation {
			m.synced()
		}
	case Stalled:
		m.stalled(ev)
	case SlotExited:
		m.exited(ev)
	case Quorum:
		if !ev.OK && m.quorum.OK {
			m.tell("", "no new ring for now: %s", ev.Reason)
		}
		m.quorum = ev
	case Tick:
	}
}

// resize takes in how many slots a host offers.
func (m *Machine) resize(ev HostSlots) {
	h := m.hosts[ev.Host]
	if h == nil {
		return
	}
	for len(h.slots) < ev.Slots {
		h.slots = append(h.slots, slot{})
		m.lastJoin = m.now
	}
	for l := range h.slots {
		h.slots[l].leaving = l >= ev.Slots
	}
}

func (m *Machine) leave(ev HostLeaving) {
	h := m.hosts[ev.Host]
	if h == nil || h.leaving {
		return
	}
	h.leaving, h.deadline = true, ev.Deadline
	if m.leaveFrom.IsZero() {
		m.leaveFrom = m.now
	}
}

// waiting takes in a process that asks for its next rank.
func (m *Machine) waiting(ev SlotWaiting) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	if s.state == InRing && ev.Generation < s.gen && m.last != nil {
		// It asked before it heard of the ring it is in.
		m.do(Form{Ring: m.last.clone(), Hosts: []HostID{ev.Proc.Slot.Host}})
		return
	}
	s.state, s.gen, s.up = Waiting, ev.Generation, false
}

// synced notes that every member of the ring holds the state. What shows it:
// a step that was reported, or that all members, alive, left the ring because of
// a notice, which Horovod takes in at a commit, after the state was broadcast.
func (m *Machine) synced() {
	news := false
	for _, mem := range m.last.Members {
		if s := m.proc(mem.Proc); s != nil && s.gen == m.last.Generation && s.since == 0 {
			s.since, news = m.last.Generation, true
		}
	}
	if news {
		m.do(Synced{Generation: m.last.Generation})
	}
}
