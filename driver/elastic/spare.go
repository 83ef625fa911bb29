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
// Nomad replaces the lost host. Until then, the ring keeps its size and lacks a spare. A host and
// its replacement have the same index and count as one, because either of loss and replacement
// may be noticed first. When a host leaves, the machine cannot know whether Nomad will replace it.
// So the ring shrinks, even if the host was a spare, and grows again if a replacement joins.
//
// With the autoscaler, the number of spares changes while the job runs, and so a host that
// leaves may or may not shrink the ring. Therefore the autoscaler states, with each count, how
// many hosts of a group should train (Scaled). Nomad stops the host with the highest index,
// which may be a member of the ring. A spare then replaces it.

// keepsSpares reports whether spares are kept. A process that can't change its ring is
// started for one rank, so it can't replace an arbitrary member.
func (m *Machine) keepsSpares() bool {
	return (m.opt.SpareHosts > 0 || m.sizes != nil) && m.CanKeepSpares()
}

// CanKeepSpares reports whether a process can take the place of any other, as far as is known.
func (m *Machine) CanKeepSpares() bool { return m.opt.Framework.LocalGaps && !m.restarts }

// trainers returns how many of the hosts should train, as the autoscaler has stated it. All
// hosts of other groups train.
func (m *Machine) trainers(hosts []*host) int {
	var others []*host
	members, unknown := 0, false
	for _, h := range hosts {
		_, stated := m.sizes[h.group]
		unknown = unknown || !h.registered
		if h.registered && !stated {
			others = append(others, h)
		}
		if slices.Contains(m.last.Hosts(), h.id) {
			members++
		}
	}
	train, count := places(others), places(others)
	for _, size := range m.sizes {
		train += size.Train
		count += size.Train + size.Spare
	}
	if unknown || places(hosts) > count {
		// The group of a host is not known yet, or Nomad is about to stop hosts. It may stop
		// members or spares, so the ring keeps its members until then.
		return max(train, members)
	}
	return train
}

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
	spares := m.opt.SpareHosts
	if m.sizes != nil {
		m.wanted, spares = m.trainers(hosts), len(hosts)
	} else {
		m.wanted = max(m.wanted, places(hosts)-spares)
	}
	m.sortByReadiness(hosts)
	need := m.opt.MinNP
	if m.last == nil {
		need = m.opt.NP
	}
	slots := 0
	for i, h := range hosts {
		full := i >= m.wanted || m.opt.MaxNP > 0 && slots >= m.opt.MaxNP
		h.outside = full && slots >= need
		if m.last == nil && !h.outside {
			m.wanted = max(m.wanted, i+1) // the first ring needs it, and keeps it
		}
		if h.outside && h.reassigns && spares > 0 {
			h.spare = true
			spares--
		}
		slots += h.stayingSlots()
		m.announce(h)
	}
	m.keepParts(hosts)
}

// sortByReadiness sorts hosts by how soon they can train.
func (m *Machine) sortByReadiness(hosts []*host) {
	members, ready := map[HostID]bool{}, map[*host]int{}
	for _, id := range m.last.Hosts() {
		members[id] = true
	}
	for _, h := range hosts {
		ready[h] = h.readiness(members[h.id])
	}
	slices.SortStableFunc(hosts, func(a, b *host) int { return cmp.Compare(ready[a], ready[b]) })
}

// places returns the number of hosts, where a host and its replacement count as one.
func places(hosts []*host) int {
	type place struct {
		group string
		index int
	}
	n, seen := 0, map[place]bool{}
	for _, h := range hosts {
		at := place{h.group, h.index}
		if !h.registered || !seen[at] { // the place of a placeholder is not known
			n++
		}
		seen[at] = seen[at] || h.registered
	}
	return n
}

// replaced reports whether another host has the place of one that leaves.
func (m *Machine) replaced(h *host) bool {
	for _, other := range m.hosts {
		if other != h && other.staying() && other.registered && h.registered && other.group == h.group && other.index == h.index {
			return true
		}
	}
	return false
}

// keepParts lets all hosts into the next ring if the state is complete only with those
// outside. This happens to replicas that lose processes while the ring shrinks.
func (m *Machine) keepParts(hosts []*host) {
	held := func() bool { return m.holdsState(m.layout(ofStaying(live))) }
	if m.Ring() != nil || !m.replicated() || held() {
		return
	}
	outside := slices.DeleteFunc(hosts, func(h *host) bool { return !h.outside })
	for _, h := range outside {
		h.outside = false
	}
	if !held() {
		for _, h := range outside {
			h.outside = true
		}
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
func (m *Machine) spareReady(h *host) bool {
	return h.spare && h.readiness(slices.Contains(m.last.Hosts(), h.id)) == isReady
}

// Values of readiness.
const (
	isMember  = iota // one of its processes is in the newest ring, or has left it and waits
	isReady          // all its processes have arrived
	isStarted        // some are there
	isDown
)

// readiness orders hosts by how soon they can train; ofRing states whether the host may be of the
// newest ring. If a host's agent has an earlier version, its processes can only have the rank
// that they were started for.
func (h *host) readiness(ofRing bool) int {
	count := map[SlotState]int{}
	for _, s := range h.slots[:h.offered()] {
		if !s.leaving && !s.stopping {
			count[s.state]++
		}
	}
	switch {
	case ofRing && count[InRing]+count[Waiting] > 0:
		return isMember
	case !h.reassigns:
		return isDown
	case count[Arrived]+count[Waiting] == h.stayingSlots():
		return isReady
	case count[Starting]+count[Arrived]+count[Waiting] > 0:
		return isStarted
	default:
		return isDown
	}
}

// stayingSlots returns how many slots of the host a later ring may have.
func (h *host) stayingSlots() int {
	n := 0
	for _, s := range h.slots[:h.offered()] {
		if !s.leaving {
			n++
		}
	}
	return n
}

// isThere accepts live slots, and newcomers that can take any place at once.
func isThere(h *host, s *slot) bool {
	return live(h, s) || s.state == Arrived && !s.stopping && h.reassigns
}

// stageSpares starts the processes of the spares, with ranks after those of the ring. When a
// spare joins the ring, kolo.torch asks for its new rank.
func (m *Machine) stageSpares() {
	if !m.spareMissing() {
		return
	}
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

// spareMissing reports whether a spare is not ready.
func (m *Machine) spareMissing() bool {
	for _, h := range m.hosts {
		if h.spare && !m.spareReady(h) {
			return true
		}
	}
	return false
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
