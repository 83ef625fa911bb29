// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"slices"
)

// A spare is a host outside the ring whose processes have arrived and wait for a failure
// (Options.SpareHosts). No host is a spare for good. Whenever hosts change, the machine chooses
// again: hosts of the ring train first, then the hosts that can be ready soonest:
//
//	hosts     a b c d   e            b is lost        f joins
//	          members   spare   ->   a c d e   -> a c d e   f
//
// A spare delays no ring. If it is not ready when a member is lost, the others form a ring
// without it, and it joins later like any newcomer.
//
// The machine knows the present hosts, but not Nomad's count. Machine.wanted is the number of
// hosts that should train: all hosts except the spares. After a loss it stays the same, because
// Nomad replaces the lost host. Until then, the ring keeps its size and lacks a spare. When a
// host leaves, the machine cannot know whether Nomad will replace it. So the ring shrinks, even
// if the host was a spare, and grows again if a replacement joins.

// keepsSpares reports whether spares are kept. A process that can't change its ring is
// started for one rank, so it can't replace an arbitrary member.
func (m *Machine) keepsSpares() bool { return m.opt.SpareHosts > 0 && !m.restarts }

// countHosts updates the number of hosts that should train, and chooses the spares.
func (m *Machine) countHosts() {
	for _, h := range m.hosts {
		h.outside, h.spare = false, false
	}
	if !m.keepsSpares() {
		if m.opt.SpareHosts > 0 && !m.warnedNoSpares {
			m.warnedNoSpares = true
			m.emit("", "spare_hosts = %d has no effect: the script does not use %s, so a process is started for one rank; all hosts train",
				m.opt.SpareHosts, m.opt.Framework.Entry)
		}
		return
	}
	var hosts []*host
	for _, h := range m.sorted() {
		if h.staying() {
			hosts = append(hosts, h)
		}
	}
	m.wanted = max(m.wanted, len(hosts)-m.opt.SpareHosts)
	slices.SortStableFunc(hosts, func(a, b *host) int { return cmp.Compare(m.readiness(a), m.readiness(b)) })
	need := m.opt.MinNP
	if m.last == nil {
		need = m.opt.NP
	}
	spares, slots := m.opt.SpareHosts, 0
	for i, h := range hosts {
		full := i >= m.wanted || m.opt.MaxNP > 0 && slots >= m.opt.MaxNP
		h.outside = full && slots >= need
		if h.outside && h.reassigns && spares > 0 {
			h.spare = true
			spares--
		}
		slots += h.offered()
		m.announce(h)
	}
}

// announce reports once that a spare is ready.
func (m *Machine) announce(h *host) {
	ready := m.spareReady(h)
	if ready && !h.announced {
		m.emit(h.id, "this host is a spare: its processes are ready, and wait outside the ring until another host is lost")
	}
	h.announced = ready
}

// spareReady reports whether a host is a spare whose processes have all arrived.
func (m *Machine) spareReady(h *host) bool { return h.spare && m.readiness(h) == isReady }

// Values of readiness.
const (
	isMember  = iota // one of its processes is in the newest ring, or has left it and waits
	isReady          // all its processes have arrived
	isStarted        // some are there
	isDown
)

// readiness orders hosts by how soon they can train. If a host's agent has an earlier version,
// its processes can only have the rank that they were started for.
func (m *Machine) readiness(h *host) int {
	count, slots := map[SlotState]int{}, 0
	for _, s := range h.slots[:h.offered()] {
		if s.leaving {
			continue
		}
		slots++
		if !s.stopping {
			count[s.state]++
		}
	}
	switch {
	case slices.Contains(m.last.Hosts(), h.id) && count[InRing]+count[Waiting] > 0:
		return isMember
	case !h.reassigns:
		return isDown
	case count[Arrived]+count[Waiting] == slots:
		return isReady
	case count[Starting]+count[Arrived]+count[Waiting] > 0:
		return isStarted
	default:
		return isDown
	}
}

// stageSpares starts the processes of the spares, with ranks after those of the ring. When a
// spare joins the ring, kolo.torch asks for its new rank.
func (m *Machine) stageSpares() {
	var hosts [][]candidate
	for _, spare := range []bool{false, true} {
		for _, h := range m.sorted() {
			if list := m.candidates(h, ofStaying(m.usable)); h.spare == spare && len(list) > 0 {
				hosts = append(hosts, list)
			}
		}
	}
	for _, mem := range assignSlots(hosts) {
		if m.hosts[mem.Proc.Slot.Host].spare && m.isNewcomer(mem) {
			m.stage(mem, m.slot(mem.Proc.Slot))
		}
	}
}

// SparesReady returns the number of spares whose processes have all arrived.
func (m *Machine) SparesReady() int {
	ready := 0
	for _, h := range m.hosts {
		if m.spareReady(h) {
			ready++
		}
	}
	return ready
}
