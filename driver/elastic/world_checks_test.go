// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
)

// checkRing fails if a ring breaks Horovod's rules.
func (w *world) checkRing(r *Ring) {
	most := w.opt.MaxNP
	if slices.ContainsFunc(w.hosts, func(h *whost) bool { return h.leaving }) || slices.ContainsFunc(r.Members, func(m Member) bool {
		h := w.m.hosts[m.Proc.Slot.Host]
		return h == nil || !h.staying() || h.slots[m.Proc.Slot.Local].leaving
	}) {
		most = max(most, 2*max(1, w.replica)) // a move
	}
	if w.opt.MaxNP > 0 && len(r.Members) > most || len(r.Members) < w.opt.MinNP {
		w.fail("ring of %d, allowed %d to %d", len(r.Members), w.opt.MinNP, w.opt.MaxNP)
	}
	if r.Generation == 1 && r.Term == w.term && w.newest == nil && len(r.Members) < w.opt.NP {
		w.fail("first ring of %d, np is %d", len(r.Members), w.opt.NP)
	}
	for _, m := range r.Members {
		local := w.number(m.Proc.Slot).Local
		if w.opt.Framework.LocalGaps && m.Assignment.LocalRank != local {
			w.fail("local rank %d on slot %s", m.Assignment.LocalRank, m.Proc.Slot)
		}
		if h := w.m.hosts[m.Proc.Slot.Host]; w.meshOf(r) == nil && h != nil && h.staying() && !h.slots[m.Proc.Slot.Local].leaving && m.Assignment.LocalRank != local {
			w.fail("local rank %d on slot %s", m.Assignment.LocalRank, m.Proc.Slot)
		}
	}
	w.checkStandbys(r)
	known := slices.ContainsFunc(w.hosts, func(h *whost) bool { return h.info.Ring != nil })
	if w.meshOf(r) == nil {
		if r.Generation == 1 && !known {
			w.newest, w.best = nil, 0 // all who knew of the old rings are gone
		}
		for _, h := range w.hosts {
			if !h.cut && h.info.Ring.Newer(r) {
				w.fail("ring %s after %s, which %s knows of", ringKey(r), ringKey(h.info.Ring), h.info.ID)
			}
		}
	}
	if err := checkRanks(r, w.opt.Framework.LocalGaps); err != nil {
		w.fail("%v", err)
	}
	w.checkReplicas(r)
	if w.meshOf(r) == nil {
		w.checkRacks(r)
		w.newest = r
		w.meshes = append(w.meshes, &wmesh{ring: *r, in: map[SlotID]int{}, holders: w.holders(r)})
	}
}

// checkStop fails if a healthy member that was notified of a change is stopped before its
// time is up. The time starts when the first member leaves the ring, and ends early when
// a member fails that was not to leave.
func (w *world) checkStop(a Stop) {
	h := w.host(a.Proc.Slot.Host)
	if h == nil || h.cut || w.m.end != nil {
		return
	}
	s, seen := h.proc(a.Proc), w.m.slot(a.Proc.Slot)
	if s == nil || !s.busy || s.given || !seen.up || s.Generation != w.m.last.Generation || w.slow[s.Generation] || w.failed[s.Generation] {
		return
	}
	if dissolves := w.now.Sub(w.left[s.Generation]); !h.told[s.Generation].IsZero() && dissolves < w.m.opt.CommitTimeout {
		w.fail("%v is busy and was told of a change, its ring dissolves for %s, and it is stopped: %s", a.Proc, dissolves, a.Reason)
	}
}

// checkHang fails if a member of a dissolving ring is killed for hanging, unless other
// members that wait, and do not retire, keep its state.
func (w *world) checkHang(a Stop) {
	h := w.host(a.Proc.Slot.Host)
	d, ok := w.m.phase.(*dissolving)
	if !ok || !a.Kill || h == nil || w.m.end != nil || w.restarts || w.now.Sub(d.since) >= w.m.opt.BarrierTimeout {
		return
	}
	s, seen := h.proc(a.Proc), w.m.slot(a.Proc.Slot)
	if s == nil || s.step < w.best || seen.state != InRing || !seen.up || seen.generation != w.m.last.Generation {
		return
	}
	kept := map[int]bool{} // places in a replica
	for _, mem := range w.m.last.Members {
		if known := w.m.proc(mem.Proc); known == nil || known.state != Waiting || known.stopping {
			continue
		}
		other := w.host(mem.Proc.Slot.Host)
		if other == nil || other.proc(mem.Proc) == nil {
			return // it has ended, which the leader does not know yet
		}
		if o := other.proc(mem.Proc); o.step >= s.step {
			kept[o.place] = true
		}
	}
	if len(kept) < max(1, w.replica) {
		w.fail("%v is killed, and others keep %d parts of its state: %s", a.Proc, len(kept), a.Reason)
	}
}

// checkRetire fails if a process is to retire that does not wait, or is in a ring.
func (w *world) checkRetire(a Stop) {
	if !a.Retire {
		return
	}
	mem := w.m.Ring().Find(a.Proc.Slot)
	if s := w.m.proc(a.Proc); s == nil || s.state != Waiting || w.m.end == nil && mem != nil && mem.Proc == a.Proc {
		w.fail("%v is to retire, %v, in ring %+v", a.Proc, s.state, w.m.Ring())
	}
}

// checkRanks returns an error if the ranks of a ring are wrong.
func checkRanks(r *Ring, gaps bool) error {
	locals, seen := map[HostID][]int{}, map[HostID]int{}
	cross := map[int][]int{}
	position := map[int]int{} // where a local rank stands on its host by rank
	for i, m := range r.Members {
		h, a := m.Proc.Slot.Host, m.Assignment
		if a.Rank != i || a.Size != len(r.Members) {
			return fmt.Errorf("member %d has rank %d of %d", i, a.Rank, a.Size)
		}
		if at, ok := seen[h]; ok && at != i-1 && r.Replica == 0 {
			return fmt.Errorf("ranks of %s are not contiguous", h)
		}
		seen[h] = i
		if at, ok := position[a.LocalRank]; !gaps && ok && at != len(locals[h]) {
			return fmt.Errorf("local rank %d is %d. by rank on %s and %d. on another host", a.LocalRank, len(locals[h]), h, at)
		}
		position[a.LocalRank] = len(locals[h])
		locals[h] = append(locals[h], a.LocalRank)
		cross[a.LocalRank] = append(cross[a.LocalRank], a.CrossRank)
	}
	for _, m := range r.Members {
		a := m.Assignment
		l := slices.Sorted(slices.Values(locals[m.Proc.Slot.Host]))
		if len(l) != a.LocalSize || !gaps && l[len(l)-1] != len(l)-1 {
			return fmt.Errorf("%s has local ranks %v, local size %d", m.Proc.Slot.Host, l, a.LocalSize)
		}
		c := cross[a.LocalRank]
		if len(c) != a.CrossSize || !slices.IsSorted(c) || c[len(c)-1] != len(c)-1 {
			return fmt.Errorf("local rank %d has cross ranks %v, cross size %d", a.LocalRank, c, a.CrossSize)
		}
	}
	return nil
}
