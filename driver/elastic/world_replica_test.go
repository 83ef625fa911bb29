// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "slices"

// checkReplicas fails if a ring that forms breaks the rules of replicas: it has whole
// ones only, and a replica of the previous ring that has all its processes is unchanged.
func (w *world) checkReplicas(r *Ring) {
	if w.replica < 2 {
		if r.Replica != 0 {
			w.fail("ring %s has replicas of %d", ringKey(r), r.Replica)
		}
		return
	}
	if r.Replica != w.replica || len(r.Members)%w.replica != 0 {
		w.fail("ring %s: %d members in replicas of %d", ringKey(r), len(r.Members), r.Replica)
	}
	if w.meshOf(r) != nil {
		return
	}
	if r.Members[0].SyncedSince == r.Generation {
		w.share(r)
		return // no replica had the state
	}
	if w.newest == nil {
		return
	}
	now := map[Proc]int{}
	for rank, m := range r.Members {
		now[m.Proc] = rank + 1
	}
	for _, replica := range w.newest.Replicas() {
		first := now[replica[0].Proc]
		there := !slices.ContainsFunc(replica, func(m Member) bool { return now[m.Proc] == 0 || !w.holds(m.Proc) })
		for place, m := range replica {
			if there && (now[m.Proc] != first+place || (first-1)%w.replica != 0) {
				w.fail("ring %s tears replica %v apart", ringKey(r), replica)
			}
		}
	}
}

// share gives the members of a new ring their parts of the state.
func (w *world) share(r *Ring) {
	for rank, m := range r.Members {
		if h := w.host(m.Proc.Slot.Host); h != nil {
			h.slots[m.Proc.Slot.Local].place = rank % w.replica
		}
	}
}

// holds reports whether the machine knows that a process has the state.
func (w *world) holds(p Proc) bool {
	s := w.m.proc(p)
	return s != nil && s.syncedSince > 0
}

// checkParts fails if a ring continues from the state and its first replica lacks a part
// of it.
func (w *world) checkParts(mesh *wmesh) {
	root := mesh.ring.Members[0]
	if w.replica < 2 || root.SyncedSince == 0 || root.SyncedSince == mesh.ring.Generation {
		return
	}
	step := w.host(root.Proc.Slot.Host).slots[root.Proc.Slot.Local].step
	for place, m := range mesh.ring.Members[:w.replica] {
		if s := w.host(m.Proc.Slot.Host).slots[m.Proc.Slot.Local]; s.place != place || s.step != step {
			w.fail("ring %s: %s has part %d of step %d, and is to have part %d of step %d", ringKey(&mesh.ring), m.Proc, s.place, s.step, place, step)
		}
	}
}

// heldStill reports whether the processes that held the newest state when a mesh formed
// still hold it.
func (w *world) heldStill(mesh *wmesh) bool {
	parts := map[int]bool{}
	for _, p := range mesh.holders {
		if h := w.host(p.Slot.Host); h != nil {
			if s := h.slots[p.Slot.Local]; s.Incarnation == p.Incarnation && s.State != Down && !s.Retiring && s.step == w.best && !s.given {
				parts[s.place] = true
			}
		}
	}
	return len(parts) == max(1, w.replica)
}

// sharedWithLeaving reports whether no whole replica that holds the state would remain
// after the leaving hosts are gone.
func (w *world) sharedWithLeaving() bool {
	return w.replica > 1 && !w.m.holdsState(w.m.layout(ofStaying(live)))
}
