// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"time"
)

// Processes of an unmodified script have their rank and size in the environment. They can't
// change their ring; other processes form the next one. No process keeps the training
// state: each loads the script's checkpoint. This file has the rules for such processes;
// standby.go selects the entries in which the next ones run.

// otherMode is the reason to refuse a process that can't change its ring in a job whose
// processes can.
const otherMode = "can't change its ring as the job's other processes can: all must train in one way"

// slotArrived handles a process that waits for its first ring. The first process of the job
// shows whether the job's processes can change their ring.
func (m *Machine) slotArrived(ev SlotArrived) {
	s := m.proc(ev.Proc)
	switch {
	case s == nil || s.state != Starting:
	case ev.Restarts && m.inProcess(ev.Proc.Slot.Host):
		m.newcomerFailed(ev.Proc, otherMode)
	default:
		m.restarts = m.restarts || ev.Restarts
		s.state = Arrived
	}
}

// inProcess reports whether processes of other hosts can change their ring. If so, a host
// with other processes does not set the job's mode.
func (m *Machine) inProcess(except HostID) bool {
	others := false
	m.each(func(h *host, _ Proc, s *slot) {
		others = others || h.id != except && (s.state == Arrived || live(h, s))
	})
	return others && !m.restarts
}

// reconcileNext prepares the ring after the current one. Its processes start while the
// members train. When all have arrived, the members are asked to save a checkpoint and end.
// That notice can't be withdrawn.
func (m *Machine) reconcileNext(in *intact) {
	noticed := !in.notified.IsZero()
	if !noticed {
		m.admitNewcomers()
	}
	want := m.layout(ofStaying(m.usable))
	change := noticed || !m.sameSlots(want, m.last.Members)
	switch {
	case len(want) < m.opt.MinNP, !change && !m.opt.Spares:
		want = nil
	case !change && !m.Up():
		return // spares start after the members
	}
	arrived := m.stageNewcomers(want) && want != nil
	if change && (noticed || arrived || m.membersMustLeave()) {
		m.notify(in)
	}
}

// membersMustLeave reports whether a leaving host of the ring no longer waits for the
// next processes.
func (m *Machine) membersMustLeave() bool {
	must := false
	for _, id := range m.last.Hosts() {
		if h := m.hosts[id]; h != nil && h.leaving && m.wake(h.leaveBy) {
			must = true
		}
	}
	return must
}

// isSpare reports whether a process was started to replace a member of the current ring
// when the ring fails.
func (m *Machine) isSpare(p Proc, s *slot) bool {
	if !m.restarts || m.Ring() == nil {
		return false
	}
	for _, mem := range m.last.Members {
		if m.number(mem.Proc.Slot) == m.number(p.Slot) {
			return mem.Assignment == s.assignment
		}
	}
	return false
}

// startsLater reports whether the next process of a slot must wait until the current ring
// is gone. It must if its entry is not free, or if too many processes failed while the
// slot's member trained.
func (m *Machine) startsLater(id SlotID, s *slot) bool {
	h := m.hosts[id.Host]
	if !m.restarts || m.Ring() == nil || !h.besideMember(h.number(id.Local)) {
		return false
	}
	excess := s.failures - m.opt.SlotRestarts
	return live(h, s) || excess > 0 && !m.wake(s.failedAt.Add(time.Duration(excess)*forgive))
}

// memberFailed breaks a ring that lost a member. Members that end from now on do so because
// of that.
func (m *Machine) memberFailed(id SlotID) {
	m.do(Failed{Slot: id})
	if m.intact() != nil {
		m.breakRing(m.startDissolving())
	}
}

// dismiss ends the remaining members of a dissolving ring: at once if it broke, otherwise
// when rank 0 has exited. Rank 0 gets time to exit by itself, because it may still be
// saving the checkpoint. The others may be waiting for it in a collective.
func (m *Machine) dismiss(d *dissolving) {
	all := func(*slot) bool { return true }
	switch {
	case d.broken:
		m.killMembers(all, "ring %d broke, and its processes can't join another", m.last.Generation)
	case m.proc(m.last.Members[0].Proc) == nil:
		m.members(all, func(mem Member) { m.stop(mem.Proc, false, "rank 0 has left ring %d", m.last.Generation) })
	case m.wake(d.since.Add(m.opt.BarrierTimeout)):
		m.killMembers(all, "it has not left ring %d in %s after it was asked for its checkpoint (checkpoint { wait })", m.last.Generation, m.opt.BarrierTimeout)
	}
}

// oldGone reports whether no process of an earlier ring is left, and kills any that is: a
// GPU has no room for two rings.
func (m *Machine) oldGone() bool {
	gone := true
	m.each(func(h *host, p Proc, s *slot) {
		if live(h, s) {
			gone = false
			m.stop(p, true, "it can't be in another ring")
		}
	})
	return gone
}

// resumeNext restores the preparation of the next ring from the report of a registering
// host: whether the current ring was notified, and which slots have, or should have, a
// process for the next ring.
func (m *Machine) resumeNext(h *host, info HostInfo) {
	if !m.restarts {
		return
	}
	if r := m.Ring(); r != nil && r.Generation == info.Noticed {
		m.rememberNotice()
	}
	if slices.Contains(m.last.Hosts(), h.id) || slices.ContainsFunc(h.slots, func(s slot) bool { return s.admitted }) {
		for l := range h.slots {
			h.slots[l].admitted = true
		}
	}
}
