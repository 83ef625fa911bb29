// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"slices"
)

// candidate is a slot that may take part in a ring, before ranks are assigned.
type candidate struct {
	proc        Proc
	number      int    // number of its slot; a local rank if these may have gaps
	syncedSince uint64 // generation since which it has the state, 0 if it does not
}

// slot returns the slot by its number.
func (c candidate) slot() SlotID { return SlotID{Host: c.proc.Slot.Host, Local: c.number} }

// syncOrder orders candidates: those that have had the state longest come first.
func (c candidate) syncOrder() uint64 {
	if c.syncedSince == 0 {
		return unsynced
	}
	return c.syncedSince
}

// assign gives ranks to candidates that are grouped by host, in this order, and returns the
// members in rank order. lead is the slot number of rank 0, see leading.
//
// Ranks are contiguous by host: Horovod's controller relies on that
// (horovod/common/gloo/gloo_controller.cc). Local ranks follow the order of the
// candidates. They are the slots' own numbers, by which scripts choose their GPU,
// unless the host has lost a slot for good.
//
// Rank 0 must have the state, so its slot need not be slot 0 of its host. Slot lead comes
// first on every host, and the others follow in order. Every host needs the same order,
// because Horovod identifies the peers of a slot in two ways: it names the meshes of its
// process sets by the slot's position among the ranks of its host, and looks for their
// members by local rank (GlooContext::InitializeForProcessSet in
// horovod/common/gloo/gloo_context.cc).
func assign(hosts [][]candidate, lead int) []Member {
	size := 0
	crossSize := map[int]int{}
	for _, h := range hosts {
		size += len(h)
		for l := range h {
			crossSize[l]++
		}
	}
	members := make([]Member, 0, size)
	crossRank := map[int]int{}
	for _, h := range hosts {
		for i := range h {
			l := i
			switch {
			case i == 0:
				l = lead
			case i <= lead:
				l = i - 1
			}
			members = append(members, Member{Proc: h[l].proc, SyncedSince: h[l].syncedSince, Assignment: Assignment{
				Rank: len(members), Size: size,
				LocalRank: l, LocalSize: len(h),
				CrossRank: crossRank[l], CrossSize: crossSize[l],
			}})
			crossRank[l]++
		}
	}
	return members
}

// assignSlots does the same as assign for a framework whose local ranks may have gaps:
// local ranks are the slots' numbers. Rank 0 is the slot of the first host that has had the
// state longest.
func assignSlots(hosts [][]candidate) []Member {
	size, crossSize := 0, map[int]int{}
	for _, h := range hosts {
		size += len(h)
		for _, c := range h {
			crossSize[c.number]++
		}
	}
	var members []Member
	crossRank := map[int]int{}
	for i, h := range hosts {
		if i == 0 {
			h = slices.Clone(h)
			slices.SortStableFunc(h, func(a, b candidate) int { return cmp.Compare(a.syncOrder(), b.syncOrder()) })
		}
		for _, c := range h {
			local := c.number
			members = append(members, Member{Proc: c.proc, SyncedSince: c.syncedSince, Assignment: Assignment{
				Rank: len(members), Size: size,
				LocalRank: local, LocalSize: len(h),
				CrossRank: crossRank[local], CrossSize: crossSize[local],
			}})
			crossRank[local]++
		}
	}
	return members
}

// leading returns the hosts in the order of their ranks, and the slot number that comes
// first on each host. It must be a number that all hosts have, and is that of the candidate
// that has had the state longest. If no candidate with such a number has the state, leading
// leaves out the hosts with the fewest slots, which join the ring after this one.
func leading(hosts [][]candidate) ([][]candidate, int) {
	for len(hosts) > 0 {
		fewest := len(slices.MinFunc(hosts, func(a, b []candidate) int { return cmp.Compare(len(a), len(b)) }))
		var root candidate
		first, lead, stateless := 0, 0, true
		for i, h := range hosts {
			for l, p := range h {
				stateless = stateless && p.syncedSince == 0
				if l < fewest && p.syncOrder() < root.syncOrder() {
					root, first, lead = p, i, l
				}
			}
		}
		if stateless || root.syncedSince > 0 {
			moved := slices.Concat(hosts[first:first+1], hosts[:first], hosts[first+1:])
			return moved, lead
		}
		hosts = slices.DeleteFunc(slices.Clone(hosts), func(h []candidate) bool { return len(h) == fewest })
	}
	return nil, 0
}
