// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

type wmesh struct {
	ring Ring
	in   map[SlotID]int // incarnation that entered
	done bool
	dead bool // can no longer complete

	holders   []Proc    // those in reach that held the newest state as it was formed
	connected time.Time // done since
	handed    bool      // and rank 0 has broadcast its state
}

func (w *world) meshOf(r *Ring) *wmesh {
	for _, mesh := range w.meshes {
		if mesh.ring.Generation == r.Generation && mesh.ring.Term == r.Term {
			return mesh
		}
	}
	return nil
}

func ringKey(r *Ring) string { return fmt.Sprintf("%d/%d", r.Generation, r.Term) }

// intact reports whether all members of the mesh are connected.
func (w *world) intact(mesh *wmesh) bool {
	return mesh.done && !slices.ContainsFunc(mesh.ring.Members, func(m Member) bool {
		h := w.host(m.Proc.Slot.Host)
		if h == nil {
			return true
		}
		s := h.slots[m.Proc.Slot.Local]
		return s.Incarnation != mesh.in[m.Proc.Slot] || !s.training || s.hung || s.Generation != mesh.ring.Generation
	})
}

// training returns the members of the generation if all of them train, which they do
// once they have the state.
func (w *world) training(gen uint64) (members []SlotID) {
	for _, mesh := range w.meshes {
		if mesh.ring.Generation == gen && mesh.handed && w.intact(mesh) {
			for _, m := range mesh.ring.Members {
				members = append(members, m.Proc.Slot)
			}
			break
		}
	}
	return members
}

// broken reports whether the generation has lost a member.
func (w *world) broken(gen uint64) bool {
	return !slices.ContainsFunc(w.meshes, func(mesh *wmesh) bool { return mesh.ring.Generation == gen && w.intact(mesh) })
}

// hangs reports whether a member of the generation hangs; the others wait for it
// in a collective.
func (w *world) hangs(gen uint64) bool {
	return slices.ContainsFunc(w.hosts, func(h *whost) bool {
		return slices.ContainsFunc(h.slots, func(s wslot) bool { return s.hung && s.State == InRing && s.Generation == gen })
	})
}

// busy reports whether a member of the generation is busy, so that no commit comes.
func (w *world) busy(gen uint64) bool {
	return slices.ContainsFunc(w.hosts, func(h *whost) bool {
		return slices.ContainsFunc(h.slots, func(s wslot) bool { return s.busy && s.State == InRing && s.Generation == gen })
	})
}

// breakRing does what a process does when it learns that its ring broke.
func (w *world) breakRing(h *whost, l int) {
	s := &h.slots[l]
	if s.busy {
		s.lingers = true
		return
	}
	switch w.pick(10) {
	case 0: // in the middle of a message
		s.hung, s.lingers = true, true
	case 1:
		s.lingers = true
	default:
		w.loseRing(h, l)
	}
}

// linger advances a process that is still in a ring that broke. Its agent may mistake a
// slow process for one that hangs.
func (w *world) linger(h *whost, l int) {
	s := &h.slots[l]
	if !s.hung && !s.busy && w.pick(4) == 0 {
		w.loseRing(h, l)
		return
	}
	if idle := s.hung || s.busy || w.pick(3) == 0; idle != s.Idle {
		s.Idle = idle
		h.report(SlotIdle{Proc{SlotID{h.info.ID, l}, s.Incarnation}, s.Generation, idle})
	}
}

// mesh completes a rendezvous, and then lets rank 0 hand out its state.
func (w *world) mesh(mesh *wmesh) {
	switch {
	case mesh.done && !mesh.handed:
		w.handOut(mesh)
		return
	case mesh.done || mesh.dead || len(mesh.in) < len(mesh.ring.Members):
		return
	}
	for id, inc := range mesh.in {
		if h := w.host(id.Host); h == nil || h.slots[id.Local].Incarnation != inc || h.slots[id.Local].State != InRing {
			return
		}
	}
	mesh.done, mesh.connected = true, w.now
	for _, m := range mesh.ring.Members {
		h := w.host(m.Proc.Slot.Host)
		s := &h.slots[m.Proc.Slot.Local]
		if s.Surrogate {
			continue
		}
		s.training, s.Up = true, true
		h.report(SlotUp{Proc{m.Proc.Slot, s.Incarnation}, mesh.ring.Generation})
	}
}

// holders returns the processes that hold the newest state. Those on a host that is cut
// off do not count, nor do those that a leader gave up or that retire.
func (w *world) holders(r *Ring) (holders []Proc) {
	for _, h := range w.hosts {
		for l, s := range h.slots {
			if id := (SlotID{h.info.ID, l}); s.State != Down && !s.Retiring && s.step == w.best && !h.cut && !s.given && s.Generation+1 >= r.Generation && w.m.slot(id) != nil {
				holders = append(holders, Proc{id, s.Incarnation})
			}
		}
	}
	return holders
}

// handOut simulates the broadcast of rank 0's state. It takes a while, but less than
// SyncGrace. A surrogate never gets there.
func (w *world) handOut(mesh *wmesh) {
	if w.restarts {
		mesh.handed = true // each process has loaded a checkpoint
		return
	}
	if !w.intact(mesh) || w.pick(30) > 0 && w.now.Sub(mesh.connected) < 15*time.Second {
		return
	}
	mesh.handed = true
	w.checkParts(mesh)
	root := mesh.ring.Members[0].Proc.Slot
	step := w.host(root.Host).slots[root.Local].step
	if step < w.best {
		if w.heldStill(mesh) {
			w.fail("ring %s goes back from step %d to %d while some of %v live", ringKey(&mesh.ring), w.best, step, mesh.holders)
		}
		if w.opt.OnRingLost == Fail {
			w.fail("ring %s goes back from step %d to %d", ringKey(&mesh.ring), w.best, step)
		}
		w.best = step
	}
	for rank, m := range mesh.ring.Members {
		s := &w.host(m.Proc.Slot.Host).slots[m.Proc.Slot.Local]
		s.step, s.place = step, rank%max(1, w.replica)
	}
}
