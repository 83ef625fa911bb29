// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"slices"
)

// place is a slot that may take part in a ring, before ranks are given.
type place struct {
	proc  Proc
	since uint64 // generation since which it holds the state, never when 0
}

// age orders places: those that hold the state longest come first.
func (p place) age() uint64 {
	if p.since == 0 {
		return ^uint64(0)
	}
	return p.since
}

// assign gives ranks to places that are grouped by host, those that hold the
// state longest on the first, and returns the members in rank order.
//
// Ranks are contiguous by host, which Horovod's controller relies on
// (horovod/common/gloo/gloo_controller.cc). Local ranks follow the order of the
// places: they are the slots' own numbers, by which scripts choose their GPU,
// unless the host has lost a slot for good. Rank 0 must hold the state, and
// that need not be a slot 0. So one slot number leads on every host, and the
// others follow in order: Horovod names the meshes of its process sets by where
// a slot stands on its host by rank, and looks for their members among those of
// its local rank, which must be the same slots
// (GlooContext::InitializeForProcessSet in horovod/common/gloo/gloo_context.cc).
func assign(hosts [][]place) []Member {
	hosts, lead := leading(hosts)
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
			members = append(members, Member{Proc: h[l].proc, Since: h[l].since, Assignment: Assignment{
				Rank: len(members), Size: size,
				LocalRank: l, LocalSize: len(h),
				CrossRank: crossRank[l], CrossSize: crossSize[l],
			}})
			crossRank[l]++
		}
	}
	return members
}

// leading returns the hosts in the order of their ranks, and the slot number
// that comes first on each: that of the oldest place that holds the state among
// the numbers that all hosts have. If none does, the hosts with the fewest slots
// hold nothing; they are left out, and join the ring after this one.
func leading(hosts [][]place) ([][]place, int) {
	for len(hosts) > 0 {
		fewest := len(slices.MinFunc(hosts, func(a, b []place) int { return cmp.Compare(len(a), len(b)) }))
		var root place
		first, lead, stateless := 0, 0, true
		for i, h := range hosts {
			for l, p := range h {
				stateless = stateless && p.since == 0
				if l < fewest && p.age() < root.age() {
					root, first, lead = p, i, l
				}
			}
		}
		if stateless || root.since > 0 {
			moved := slices.Concat(hosts[first:first+1], hosts[:first], hosts[first+1:])
			return moved, lead
		}
		hosts = slices.DeleteFunc(slices.Clone(hosts), func(h []place) bool { return len(h) == fewest })
	}
	return nil, 0
}
