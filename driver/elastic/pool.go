// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"slices"
)

// pool holds the candidates that are in no replica yet.
type pool struct {
	hosts [][]candidate
	free  map[SlotID]candidate // by slot number
}

func newPool(hosts [][]candidate) *pool {
	p := &pool{hosts: hosts, free: map[SlotID]candidate{}}
	for _, h := range hosts {
		for _, c := range h {
			p.free[c.slot()] = c
		}
	}
	return p
}

// take removes the candidates of slots and returns them. If one is missing, it removes none
// and returns nil.
func (p *pool) take(ids []SlotID) []candidate {
	group := make([]candidate, 0, len(ids))
	for _, id := range ids {
		c, ok := p.free[id]
		if !ok {
			return nil
		}
		group = append(group, c)
	}
	for _, id := range ids {
		delete(p.free, id)
	}
	return group
}

// hold reports whether all slots are in the pool and have the state.
func (p *pool) hold(ids []SlotID) bool {
	return !slices.ContainsFunc(ids, func(id SlotID) bool { return p.free[id].syncedSince == 0 })
}

// rest returns the remaining candidates, by host.
func (p *pool) rest() [][]candidate {
	var hosts [][]candidate
	for _, h := range p.hosts {
		if left := slices.DeleteFunc(slices.Clone(h), func(c candidate) bool { _, free := p.free[c.slot()]; return !free }); len(left) > 0 {
			hosts = append(hosts, left)
		}
	}
	return hosts
}

// gather makes as many groups of size candidates as possible. It fills a group from one
// host if that has enough candidates, otherwise from as few hosts as possible.
func gather(hosts [][]candidate, size int) [][]candidate {
	var groups, rest [][]candidate
	left := 0
	for _, h := range hosts {
		for ; len(h) >= size; h = h[size:] {
			groups = append(groups, h[:size])
		}
		rest = append(rest, h)
		left += len(h)
	}
	for ; left >= size; left -= size {
		slices.SortStableFunc(rest, func(a, b []candidate) int { return cmp.Compare(len(b), len(a)) })
		groups = append(groups, span(rest, size))
	}
	return groups
}

// span takes size candidates from hosts sorted by their number of candidates, most first.
// It takes the last ones from the smallest host that has enough.
func span(hosts [][]candidate, size int) []candidate {
	var group []candidate
	for i := 0; len(group) < size; i++ {
		need := size - len(group)
		at := i
		for next := i + 1; next < len(hosts) && len(hosts[next]) >= need; next++ {
			if len(hosts[next]) < len(hosts[at]) {
				at = next
			}
		}
		n := min(need, len(hosts[at]))
		group = append(group, hosts[at][:n]...)
		hosts[at] = hosts[at][n:]
	}
	return group
}
