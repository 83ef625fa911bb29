// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"math"
	"slices"
)

// sorted returns the hosts in the order in which they get ranks: those that
// hold the state longest first, then as in the last ring, then by group and
// index.
func (m *Machine) sorted() []*host {
	position := map[HostID]int{}
	for i, id := range m.last.Hosts() {
		position[id] = i
	}
	at := func(h *host) int {
		if i, ok := position[h.id]; ok {
			return i
		}
		return math.MaxInt
	}
	hosts := make([]*host, 0, len(m.hosts))
	for _, h := range m.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *host) int {
		return cmp.Or(cmp.Compare(a.age(), b.age()), cmp.Compare(at(a), at(b)),
			cmp.Compare(a.group, b.group), cmp.Compare(a.index, b.index), cmp.Compare(a.id, b.id))
	})
	return hosts
}

// layout is the ring that the slots accepted by ok would form. Of each host it
// takes the slots from 0 up to the first that is not accepted: Horovod needs
// local ranks without a hole, and a script's GPU is its local rank, so slots
// are not renumbered. Only those that are about to go are, where the slot that
// is missing will not be started again.
func (m *Machine) layout(ok func(*host, *slot) bool) []Member { return m.layoutMax(ok, m.opt.MaxNP) }

func (m *Machine) layoutMax(ok func(*host, *slot) bool, room int) []Member {
	var hosts [][]place
	for _, h := range m.sorted() {
		var places []place
		for l := range h.slots {
			s := &h.slots[l]
			if s.stopping && !s.restage || !ok(h, s) {
				if h.staying() && !s.leaving {
					break
				}
				continue
			}
			inc := s.inc
			if s.state == Down || s.restage {
				inc++
			}
			places = append(places, place{proc: Proc{Slot: SlotID{h.id, l}, Incarnation: inc}, since: s.since})
		}
		if len(places) > 0 {
			hosts = append(hosts, places)
		}
	}
	// A host whose oldest slot is not among its places does not come first.
	slices.SortStableFunc(hosts, func(a, b []place) int { return cmp.Compare(oldest(a), oldest(b)) })
	if room > 0 {
		for i, h := range hosts {
			hosts[i] = h[:min(len(h), room)]
			room -= len(hosts[i])
		}
		hosts = slices.DeleteFunc(hosts, func(h []place) bool { return len(h) == 0 })
	}
	return assign(hosts)
}

func oldest(places []place) uint64 {
	age := uint64(math.MaxUint64)
	for _, p := range places {
		age = min(age, p.age())
	}
	return age
}

// live accepts slots that need no start: in the ring, or waiting for one.
func live(_ *host, s *slot) bool { return s.state == InRing || s.state == Waiting }

// usable accepts live slots and newcomers that were admitted.
func (m *Machine) usable(h *host, s *slot) bool {
	return live(h, s) || s.admitted && (s.state != Down || !m.now.Before(s.retry))
}

func staying(ok func(*host, *slot) bool) func(*host, *slot) bool {
	return func(h *host, s *slot) bool { return h.staying() && !s.leaving && ok(h, s) }
}

func sameSlots(a, b []Member) bool {
	return slices.EqualFunc(a, b, func(x, y Member) bool { return x.Proc.Slot == y.Proc.Slot })
}

// holdsState says whether rank 0 of the plan holds the training state.
func (m *Machine) holdsState(plan []Member) bool {
	return len(plan) > 0 && m.slot(plan[0].Proc.Slot).since > 0
}
