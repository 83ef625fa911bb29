// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"slices"
	"time"
)

// Processes of an unmodified script have their rank and size in the environment. They
// can't change their ring; other processes form the next one. No process holds the
// training state: each loads the script's checkpoint. This file has what is different
// then, standby.go where the next processes run.

// otherMode is why a process is refused that is not of the job's kind.
const otherMode = "can't change its ring as the job's other processes can: all must train in one way"

// slotArrived handles a process that is held for its first ring. The first one of
// the job shows whether processes can change theirs.
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

// inProcess reports whether processes of other hosts change their ring. A host whose
// processes do not can't take that from them.
func (m *Machine) inProcess(except HostID) bool {
	others := false
	m.each(func(h *host, _ Proc, s *slot) {
		others = others || h.id != except && (s.state == Arrived || live(h, s))
	})
	return others && !m.restarts
}

// reconcileNext prepares the ring that follows the present one. Its processes
// start beside the members; when all have arrived, the members are asked to save a
// checkpoint and end. There is no way back from that notice.
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
		return // spares start when the members have
	}
	arrived := m.stageNewcomers(want) && want != nil
	if change && (noticed || arrived || m.membersMustLeave()) {
		m.notify(in)
	}
}

// membersMustLeave reports whether a host of a member that leaves waits no longer
// for the next processes.
func (m *Machine) membersMustLeave() bool {
	must := false
	for _, id := range m.last.Hosts() {
		if h := m.hosts[id]; h != nil && h.leaving && m.wake(h.leaveBy) {
			must = true
		}
	}
	return must
}

// isSpare reports whether a process was started for the ring that trains, to take
// a member's place when this ring fails.
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

// startsLater reports whether the next process of a slot starts only when the
// present ring is gone: its entry is not free, or too many have failed beside the
// member.
func (m *Machine) startsLater(id SlotID, s *slot) bool {
	h := m.hosts[id.Host]
	if !m.restarts || m.Ring() == nil || !h.besideMember(h.number(id.Local)) {
		return false
	}
	excess := s.failures - m.opt.SlotRestarts
	return live(h, s) || excess > 0 && !m.wake(s.failedAt.Add(time.Duration(excess)*forgive))
}

// memberFailed gives up a ring that lost a member. Those that end from now on end
// because of it.
func (m *Machine) memberFailed(id SlotID) {
	m.do(Failed{Slot: id})
	if m.intact() != nil {
		m.breakRing(m.startDissolving())
	}
}

// dismiss ends the other members of a ring that dissolves: at once where it broke;
// else rank 0, which may still save the checkpoint, gets time to end by itself. The
// others may wait for rank 0 in a collective.
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

// oldGone reports whether no process of an earlier ring is left, and kills those
// that are: two rings have no room on one GPU.
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

// resumeNext takes in what a host that registers knows of the next ring: that the
// present one had a notice, and which slots have a process for the next, or are to
// have one.
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
