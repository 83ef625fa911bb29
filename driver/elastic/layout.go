// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"slices"
)

// layout returns the ring that the slots accepted by ok would form.
//
// Without Framework.LocalGaps, it takes the slots of each host from 0 up to the first one
// that is not accepted. Horovod requires local ranks without a gap, and a script's GPU is
// its local rank, so slots are not renumbered. The exception is a host or slot that is
// leaving: the missing slot will not be started again there.
func (m *Machine) layout(ok func(*host, *slot) bool) []Member { return m.layoutMax(ok, m.opt.MaxNP) }

// layoutMax does the same as layout with another limit of processes; 0 means no limit.
func (m *Machine) layoutMax(ok func(*host, *slot) bool, limit int) []Member {
	var hosts [][]candidate
	for _, h := range m.sorted() {
		if c := m.candidates(h, ok); len(c) > 0 && !h.outside {
			hosts = append(hosts, c)
		}
	}
	// A host whose oldest slot is not a candidate does not come first.
	slices.SortStableFunc(hosts, func(a, b []candidate) int { return cmp.Compare(firstSync(a), firstSync(b)) })
	if m.replicated() {
		return assignReplicas(m.byTopology(m.replicas(m.byTopology(hosts), limit)))
	}
	if limit > 0 {
		for i, h := range hosts {
			hosts[i] = h[:min(len(h), limit)]
			limit -= len(hosts[i])
		}
		hosts = slices.DeleteFunc(hosts, func(h []candidate) bool { return len(h) == 0 })
	}
	if m.opt.Framework.LocalGaps || m.restarts {
		slices.SortStableFunc(hosts, func(a, b []candidate) int { return cmp.Compare(firstSync(a), firstSync(b)) })
		return assignSlots(m.byTopology(hosts))
	}
	hosts, lead := leading(hosts)
	return assign(m.byTopology(hosts), lead)
}

// candidates returns the processes that a host may contribute to a ring.
func (m *Machine) candidates(h *host, ok func(*host, *slot) bool) []candidate {
	if m.restarts {
		return h.nextCandidates(ok)
	}
	return h.candidates(ok, m.opt.Framework.LocalGaps)
}

func (h *host) candidates(ok func(*host, *slot) bool, gaps bool) []candidate {
	var list []candidate
	for l := range h.offered() {
		s := &h.slots[l]
		if s.stopping && !s.restage || !ok(h, s) {
			if h.staying() && !s.leaving && !gaps {
				break
			}
			continue
		}
		p := Proc{Slot: SlotID{h.id, l}, Incarnation: s.incarnation}
		if s.state == Down || s.restage {
			p.Incarnation++
		}
		list = append(list, candidate{proc: p, number: l, syncedSince: s.syncedSince})
	}
	return list
}

func firstSync(list []candidate) uint64 {
	first := unsynced
	for _, c := range list {
		first = min(first, c.syncOrder())
	}
	return first
}

// live accepts slots that need no start: they are in a ring or wait for the next one.
func live(_ *host, s *slot) bool { return s.state == InRing || s.state == Waiting }

// usable accepts live slots and newcomers that were admitted. It does not accept a newcomer
// that has to wait before it starts again. The exception is a job whose processes can't
// change their ring: without that newcomer, the others would have to start again for
// another size.
func (m *Machine) usable(h *host, s *slot) bool {
	return live(h, s) || s.admitted && (s.state != Down || m.restarts || !m.now.Before(s.retryAt))
}

// ofStaying limits ok to slots that are not leaving.
func ofStaying(ok func(*host, *slot) bool) func(*host, *slot) bool {
	return func(h *host, s *slot) bool { return h.staying() && !s.leaving && ok(h, s) }
}

// sameSlots reports whether two plans have the same slots in the same order.
func (m *Machine) sameSlots(a, b []Member) bool {
	return slices.EqualFunc(a, b, func(x, y Member) bool { return m.number(x.Proc.Slot) == m.number(y.Proc.Slot) })
}

// holdsState reports whether rank 0 of the plan has the training state.
func (m *Machine) holdsState(plan []Member) bool {
	return len(plan) > 0 && plan[0].SyncedSince > 0
}
