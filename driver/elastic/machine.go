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
	opt    Options
	term   uint64
	now    time.Time
	quorum Quorum
	hosts  map[HostID]*host

	restarts bool   // processes can't change their ring, as one of them has shown; see restart.go
	asked    uint64 // generation of the last ring whose members were asked to end

	phase  phase                // of the newest ring; changes in phase.go only
	last   *Ring                // the newest ring, which is the current one unless the phase is noRing
	resend bool                 // some of its hosts may not know of it
	resets int                  // rings that replaced an earlier one
	wanted int                  // hosts that should train, if spares are kept; see spare.go
	sizes  map[string]GroupSize // of groups, as far as the autoscaler has stated them; see spare.go

	end *ending // the job's outcome, nil until it is decided

	lastFailure string // how the last failed process ended, empty if none has

	newcomersSince time.Time // when the first newcomer came that is not admitted yet
	lastNewcomer   time.Time // when the latest newcomer came
	leavingSince   time.Time // when the first host of the current ring began to leave

	intrusions int       // number of rings broken by an intrusion that still count
	intrudedAt time.Time // time of the last one
	formAfter  time.Time // no ring forms before this

	stepsReported      bool // the script reports its steps
	warnedUnnotifiable bool // the warning that rank 0 can't be notified was sent
	warnedNoSpares     bool // has warned that no spares are kept

	// Kept from earlier events; see sorted.
	order  []*host
	placed struct {
		of *Ring
		at map[HostID]int
	}

	// Results of Step.
	wakeAt  time.Time
	actions []Action
}

// New returns a machine for the leader of the given term. It starts empty, because hosts
// report everything that it needs to know when they register.
func New(opt Options, term uint64) *Machine {
	opt.setDefaults()
	return &Machine{opt: opt, term: term, restarts: opt.Restarts, hosts: map[HostID]*host{},
		phase: &noRing{}, quorum: Quorum{OK: true}}
}

// Step handles one event and returns the actions to take, in order. If now goes
// backwards, the machine's time stands still.
func (m *Machine) Step(now time.Time, ev Event) []Action {
	if now.After(m.now) {
		m.now = now
	}
	m.wakeAt, m.actions = time.Time{}, nil
	m.apply(ev)
	m.reconcile()
	return m.actions
}

// Deadline returns the time at which the machine needs a Tick; zero means never.
func (m *Machine) Deadline() time.Time { return m.wakeAt }

// Ring returns the ring that trains, forms or dissolves now, or nil.
func (m *Machine) Ring() *Ring {
	if _, none := m.phase.(*noRing); none {
		return nil
	}
	return m.last
}

// Last returns the newest ring, which may have ended, or nil if there was none.
func (m *Machine) Last() *Ring { return m.last }

// Up reports whether all members of the current ring finished the rendezvous.
func (m *Machine) Up() bool {
	_, ok := m.phase.(*training)
	return ok
}

// Forming reports whether members of the current ring are still connecting.
func (m *Machine) Forming() bool {
	_, ok := m.phase.(*forming)
	return ok
}

// Intact reports whether the current ring forms or trains, and has lost no member.
func (m *Machine) Intact() bool { return m.Forming() || m.Up() }

// FormingEnds returns the time at which members of the current ring are killed if they have
// not connected by then. It is zero if no ring forms or trains.
func (m *Machine) FormingEnds() time.Time {
	if p := m.intact(); p != nil {
		return p.formed.Add(m.opt.FormTimeout)
	}
	return time.Time{}
}

// Ending reports whether the job's outcome is decided. Its processes are then being
// stopped, and make no more steps.
func (m *Machine) Ending() bool { return m.end != nil }

// Restarts reports whether the job's processes can't change their ring.
func (m *Machine) Restarts() bool { return m.restarts }

// Asked returns the generation of the last ring whose members were asked to end. This
// happens only to processes that can't change their ring. It is 0 if there was no such
// ring.
func (m *Machine) Asked() uint64 { return m.asked }

// Resets returns how many rings replaced an earlier one.
func (m *Machine) Resets() int { return m.resets }

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

func (m *Machine) emit(h HostID, format string, args ...any) {
	m.do(TaskEvent{Host: h, Text: fmt.Sprintf(format, args...)})
}

// wake reports whether time t has come; if not, it asks for a Tick at t.
func (m *Machine) wake(t time.Time) bool {
	if !m.now.Before(t) {
		return true
	}
	if m.wakeAt.IsZero() || t.Before(m.wakeAt) {
		m.wakeAt = t
	}
	return false
}

// stop ends a process, once.
func (m *Machine) stop(p Proc, kill bool, format string, args ...any) {
	s := m.proc(p)
	if s == nil || s.stopping {
		return
	}
	s.stopping = true
	m.do(Stop{Proc: p, Kill: kill, Reason: fmt.Sprintf(format, args...)})
}

// retire ends a waiting process that has no place in the next ring, once. The process has
// time to flush its output, upload and log: only the release of its host and the end of the
// job wait for it.
func (m *Machine) retire(p Proc, why string) {
	s := m.proc(p)
	if s == nil || s.stopping {
		return
	}
	s.stopping = true
	m.do(Stop{Proc: p, Kill: true, Retire: true, Reason: why})
}

func (m *Machine) apply(ev Event) {
	switch ev := ev.(type) {
	case HostJoined:
		m.register(ev.Info)
	case HostLeaving:
		m.hostLeaving(ev)
	case HostSlots:
		m.hostSlots(ev)
	case Scaled:
		m.sizes = ev.Groups
	case HostLost:
		h := m.hosts[ev.Host]
		delete(m.hosts, ev.Host)
		if slices.Contains(m.Ring().Hosts(), ev.Host) {
			m.forgetNotice()
			if h != nil && h.registered && h.staying() && slices.ContainsFunc(h.slots, m.inCurrentRing) {
				m.memberLost()
			}
		}
	case SlotArrived:
		m.slotArrived(ev)
	case SlotWaiting:
		m.slotWaiting(ev)
	case SlotUp:
		if s := m.proc(ev.Proc); s != nil && s.state == InRing && s.generation == ev.Generation {
			s.up = true
		}
	case SlotNotifiable:
		if s := m.proc(ev.Proc); s != nil {
			s.notifiable = true
		}
	case SlotIdle:
		if s := m.proc(ev.Proc); s != nil && s.state == InRing && s.generation == ev.Generation {
			s.idle = ev.Idle
		}
	case Trained:
		m.stepsReported = true
		if r := m.Ring(); r != nil && r.Generation == ev.Generation {
			m.markSynced()
		}
	case Stalled:
		m.stalled(ev)
	case Intruded:
		m.intruded(ev)
	case SlotExited:
		m.slotExited(ev)
	case Quorum:
		if !ev.OK && m.quorum.OK {
			m.emit("", "no new ring for now: %s", ev.Reason)
		}
		m.quorum = ev
	case Tick:
	}
}

// hostSlots handles a new number of slots of a host.
func (m *Machine) hostSlots(ev HostSlots) {
	h := m.hosts[ev.Host]
	if h == nil {
		return
	}
	h.width = 0 // its processes can change their ring, and need no standbys
	for len(h.slots) < ev.Slots {
		h.slots = append(h.slots, slot{})
		m.lastNewcomer = m.now
	}
	for l := range h.slots {
		h.slots[l].leaving = l >= ev.Slots
	}
}

// hostLeaving handles a host whose task is being stopped.
func (m *Machine) hostLeaving(ev HostLeaving) {
	h := m.hosts[ev.Host]
	if h == nil || h.leaving {
		return
	}
	h.leaving, h.leaveBy = true, m.now.Add(m.opt.LeaveGrace)
	if !h.failed && !m.replaced(h) {
		m.wanted = max(m.wanted-1, 0)
	}
	if ev.Within > 0 {
		h.leaveBy = m.now.Add(ev.Within / 2)
	}
	if m.leavingSince.IsZero() {
		m.leavingSince = m.now
	}
}

// slotWaiting handles a process that asks for its next rank.
func (m *Machine) slotWaiting(ev SlotWaiting) {
	s := m.proc(ev.Proc)
	if s == nil {
		return
	}
	switch {
	case ev.Retiring:
		s.stopping = true
	case s.state == InRing && ev.Generation < s.generation && m.last != nil:
		// It asked before it learned of the ring that it is in.
		m.do(Form{Ring: m.last.clone(), Hosts: []HostID{ev.Proc.Slot.Host}})
		return
	}
	s.up = s.up && s.generation == ev.Generation // remains set: see census.gaveUp
	s.state, s.generation, s.idle = Waiting, ev.Generation, false
}
