// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "slices"

// A host whose processes can't change their ring has two entries per slot: entry i and its
// standby, entry width+i, both on the GPU of slot i. The process of the next ring starts in
// one entry while that of the current ring runs in the other.

// offered returns the number of slots that the host offers, without standbys.
func (h *host) offered() int {
	if h.width > 0 {
		return min(h.width, len(h.slots))
	}
	return len(h.slots)
}

// SlotNumber returns the number of the slot that an entry of HostInfo.Slots belongs to: a
// slot and its standby are two entries. Messages and scripts identify a slot by its number.
func SlotNumber(entry, width int) int {
	if width > 0 {
		return entry % width
	}
	return entry
}

// number returns the number of the slot that an entry belongs to.
func (h *host) number(local int) int { return SlotNumber(local, h.width) }

// entries returns the entries of a slot.
func (h *host) entries(number int) []*slot {
	list := []*slot{&h.slots[number]}
	if standby := h.width + number; h.width > 0 && standby < len(h.slots) {
		list = append(list, &h.slots[standby])
	}
	return list
}

// admitted reports whether a slot is part of a ring or of the current batch of
// newcomers.
func (h *host) admitted(number int) bool {
	return slices.ContainsFunc(h.entries(number), func(s *slot) bool { return s.admitted })
}

// besideMember reports whether a process of the slot is in a ring. As long as one is,
// failures of the slot's next process do not cost the job this host, because some scripts
// can't run twice on one machine.
func (h *host) besideMember(number int) bool {
	return slices.ContainsFunc(h.entries(number), func(s *slot) bool { return live(h, s) })
}

// number returns the slot that an entry belongs to, as messages name it.
func (m *Machine) number(id SlotID) SlotID {
	if h := m.hosts[id.Host]; h != nil {
		id.Local = h.number(id.Local)
	}
	return id
}

// nextCandidates returns the processes that should form the next ring, if processes can't
// change theirs. A slot is a candidate whether or not its next process already runs, so
// that the plan stays the same when one fails.
func (h *host) nextCandidates(ok func(*host, *slot) bool) []candidate {
	var list []candidate
	for number := range h.offered() {
		entries := h.entries(number)
		if !slices.ContainsFunc(entries, func(s *slot) bool { return ok(h, s) }) {
			continue
		}
		at := 0
		if len(entries) > 1 && entries[1].turn() < entries[0].turn() {
			at = 1
		}
		s, p := entries[at], Proc{Slot: SlotID{h.id, number + at*h.width}}
		p.Incarnation = s.incarnation
		if s.state == Down || s.stopping || live(h, s) {
			p.Incarnation++
		}
		list = append(list, candidate{proc: p, number: number})
	}
	return list
}

// turn orders the entries of a slot: the entry of its next process comes first.
func (s *slot) turn() int {
	switch {
	case s.state == Down:
		return 1
	case live(nil, s):
		return 3
	case s.stopping && !s.restage:
		return 2
	default:
		return 0
	}
}
