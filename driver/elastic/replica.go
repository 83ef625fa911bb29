// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"slices"
)

// With Options.Replica above 1, a ring consists of replicas. A replica is that many
// members with consecutive ranks, which share one copy of the training state. A
// member's place in its replica decides which part it has, so members with the same
// place have the same part. Slots that do not make up a whole replica wait.
//
//	rank      0 1 2 3   4 5 6 7                 0 1 2 3
//	replica   A A A A   B B B B   B:1 fails ->  A A A A   B:0, B:2 and B:3 wait for B:1
//	place     0 1 2 3   0 1 2 3                 0 1 2 3

// Replicas returns the members of each replica of the ring, in rank order.
func (r *Ring) Replicas() [][]Member {
	if r == nil || r.Replica < 2 {
		return nil
	}
	return slices.Collect(slices.Chunk(r.Members, r.Replica))
}

// replicated reports whether rings consist of replicas of several slots.
func (m *Machine) replicated() bool { return m.opt.Replica > 1 }

// lastReplicas returns the replicas of the newest ring. It returns none if their size was
// different, because members then have different parts of the state.
func (m *Machine) lastReplicas() [][]Member {
	if m.last == nil || m.last.Replica != m.opt.Replica {
		return nil
	}
	return m.last.Replicas()
}

// replicas groups candidates, given by host, into at most limit/Replica replicas; 0 means
// no limit. Replicas that have the state come first. All other replicas count as having
// none of it.
func (m *Machine) replicas(hosts [][]candidate, limit int) [][]candidate {
	pool := newPool(hosts)
	groups := m.survivors(pool)
	for _, members := range m.lastReplicas() { // replicas without the state stay together, too
		if group := pool.take(m.numbers(members)); group != nil {
			groups = append(groups, stateless(group))
		}
	}
	for _, group := range gather(pool.rest(), m.opt.Replica) {
		groups = append(groups, stateless(group))
	}
	if limit > 0 {
		groups = groups[:min(len(groups), limit/m.opt.Replica)]
	}
	return groups
}

// survivors takes the replicas that have the state from p, those that have had it longest
// first. If all have lost members, it makes one replica of the remaining members, provided
// that they have every part of the state.
func (m *Machine) survivors(p *pool) [][]candidate {
	var groups [][]candidate
	for _, members := range m.lastReplicas() {
		if ids := m.numbers(members); p.hold(ids) {
			groups = append(groups, p.take(ids))
		}
	}
	if groups == nil {
		if ids := m.holders(p); p.hold(ids) {
			groups = append(groups, p.take(ids))
		}
	}
	slices.SortStableFunc(groups, func(a, b []candidate) int { return cmp.Compare(replicaSync(a), replicaSync(b)) })
	return groups
}

// replicaSync orders replicas by the generation since which they have the whole state.
func replicaSync(group []candidate) uint64 {
	last := uint64(0)
	for _, c := range group {
		last = max(last, c.syncOrder())
	}
	return last
}

// stateless returns the candidates marked as having no state, because their parts of it are
// of no use.
func stateless(group []candidate) []candidate {
	group = slices.Clone(group)
	for i := range group {
		group[i].syncedSince = 0
	}
	return group
}

// numbers returns the slots of members.
func (m *Machine) numbers(members []Member) []SlotID {
	ids := make([]SlotID, len(members))
	for i, mem := range members {
		ids[i] = m.number(mem.Proc.Slot)
	}
	return ids
}

// holders returns, for each place of a replica, a slot that has the place's part of the
// state, if there is one.
func (m *Machine) holders(p *pool) []SlotID {
	ids := make([]SlotID, m.opt.Replica)
	for _, members := range m.lastReplicas() {
		for place, id := range m.numbers(members) {
			if p.free[ids[place]].syncedSince == 0 {
				ids[place] = id
			}
		}
	}
	return ids
}

// assignReplicas gives ranks to replicas in their order. The ranks of one host need not
// be contiguous.
func assignReplicas(groups [][]candidate) []Member {
	list := slices.Concat(groups...)
	localSize, crossSize := map[HostID]int{}, map[int]int{}
	for _, c := range list {
		localSize[c.proc.Slot.Host]++
		crossSize[c.number]++
	}
	members, crossRank := make([]Member, 0, len(list)), map[int]int{}
	for rank, c := range list {
		members = append(members, Member{Proc: c.proc, SyncedSince: c.syncedSince, Assignment: Assignment{
			Rank: rank, Size: len(list),
			LocalRank: c.number, LocalSize: localSize[c.proc.Slot.Host],
			CrossRank: crossRank[c.number], CrossSize: crossSize[c.number],
		}})
		crossRank[c.number]++
	}
	return members
}

// partsHeld reports whether the slots that ok accepts have the whole state. Any one slot is
// enough; with replicas, one slot of each place is needed.
func (m *Machine) partsHeld(ok func(*slot) bool) bool {
	if !m.replicated() {
		held := false
		m.each(func(_ *host, _ Proc, s *slot) { held = held || s.syncedSince > 0 && ok(s) })
		return held
	}
	places := map[int]bool{}
	for _, members := range m.lastReplicas() {
		for place, mem := range members {
			if s := m.proc(mem.Proc); s != nil && s.syncedSince > 0 && ok(s) {
				places[place] = true
			}
		}
	}
	return len(places) == m.opt.Replica
}

// carriesOn reports whether a plan can continue from the state of the current ring, once
// all members of that ring have it. With replicas, the plan needs a whole replica of the
// current ring.
func (m *Machine) carriesOn(plan []Member) bool {
	if !m.replicated() {
		return true
	}
	old := m.lastReplicas()
	return slices.ContainsFunc(slices.Collect(slices.Chunk(plan, m.opt.Replica)), func(replica []Member) bool {
		return m.holdsState(replica) || slices.ContainsFunc(old, func(o []Member) bool { return m.sameSlots(o, replica) })
	})
}

// handoffReplicas does the same as handoffPlan, for replicas. It keeps as many replicas
// with leaving slots as there is room for, and at least one if no other replica has the
// state.
func (m *Machine) handoffReplicas() []Member {
	stay := m.layout(ofStaying(m.usable))
	if len(stay) >= m.opt.MinNP && m.holdsState(stay) {
		return stay // it may include slots of replicas that lose their leaving slots
	}
	size := m.opt.Replica
	var leaving [][]Member
	for replica := range slices.Chunk(m.layoutMax(live, 0), size) {
		if slices.ContainsFunc(replica, func(mem Member) bool { return m.leaves(mem.Proc.Slot) }) {
			leaving = append(leaving, replica)
		}
	}
	least := min(1, len(leaving))
	if m.holdsState(stay) {
		least = 0
	}
	for {
		kept := map[*slot]bool{}
		for _, mem := range slices.Concat(leaving...) {
			kept[m.slot(mem.Proc.Slot)] = true
		}
		ok := func(h *host, s *slot) bool { return kept[s] || h.staying() && !s.leaving && m.usable(h, s) }
		plan := m.layoutMax(ok, 0)
		switch {
		case m.opt.MaxNP == 0 || len(plan) <= m.opt.MaxNP:
			return plan
		case len(leaving) <= least:
			return m.layoutMax(ok, max(m.opt.MaxNP, 2*size*least))
		}
		leaving = leaving[:len(leaving)-1]
	}
}

// Surplus returns how many slots wait because they do not make up a whole replica.
func (m *Machine) Surplus() int {
	offered := 0
	for _, h := range m.hosts {
		if h.staying() && !h.outside {
			offered += h.offered()
		}
	}
	if m.opt.MaxNP > 0 {
		offered = min(offered, m.opt.MaxNP)
	}
	return offered % m.opt.Replica
}

// leaves reports whether a slot is leaving.
func (m *Machine) leaves(id SlotID) bool {
	h := m.hosts[id.Host]
	return h != nil && (!h.staying() || m.slot(id).leaving)
}

// multiple rounds n up to a multiple of size.
func multiple(n, size int) int { return (n + size - 1) / size * size }
