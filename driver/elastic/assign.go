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

// assign gives ranks to places that are grouped by host, hosts in the order
// given, and returns the members in rank order. Ranks are contiguous by host,
// which Horovod's controller relies on (horovod/common/gloo/
// gloo_controller.cc); within a host the ones that hold the state come first,
// so that rank 0 does. Local ranks follow the order of the places: they are
// the slots' own numbers, by which scripts choose their GPU, unless the host
// has lost a slot for good.
func assign(hosts [][]place) []Member {
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
		order := make([]int, len(h))
		for l := range h {
			order[l] = l
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(h[a].age(), h[b].age()) })
		for _, l := range order {
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
