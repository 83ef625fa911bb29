// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Where processes can't change their ring, those of the next one start beside those of
// the present: each of the host's slots has two places, entries i and width+i of
// Host.slots. They share the GPU, the local rank, the number by which people know the
// slot, and the count of its failures.

// places returns the entries for a number of slots.
func (h *Host) places(slots int) []*slot {
	if h.o.Framework.Standbys() {
		h.width = slots
		slots *= 2
	}
	entries := make([]*slot, slots)
	for i := range entries {
		entries[i] = &slot{}
	}
	return entries
}

// number is the number of an entry's slot, as people and scripts know it.
func (h *Host) number(local int) int { return elastic.SlotNumber(local, h.width) }

// beside returns the other place of an entry's slot, nil where there is none.
func (h *Host) beside(local int) *slot {
	if h.width == 0 {
		return nil
	}
	return h.slots[(local+h.width)%len(h.slots)]
}

// starts is how often an entry's slot has been started.
func (h *Host) starts(local int) int {
	n := h.slots[local].Incarnation
	if other := h.beside(local); other != nil {
		n += other.Incarnation
	}
	return n
}

// postpone keeps a process from being started beside another of its slot where the
// task's memory is too small for both. To the leader it has arrived: the ring that it is
// for forms when the others have ended.
func (h *Host) postpone(s *slot, a elastic.Start) bool {
	other := h.beside(a.Proc.Slot.Local)
	if other == nil || other.proc == nil {
		return false
	}
	lack := h.lackOfMemory(other)
	if lack == "" {
		return false
	}
	h.warnOnce("memory", fmt.Sprintf("slot %d: %s; its next process starts when the present one has ended, so that training pauses for that time: "+
		"raise the task's memory for two processes of a slot", h.number(a.Proc.Slot.Local), lack))
	s.State, s.Restarts, s.postponed = elastic.Arrived, true, &a
	h.send(&wire.ToLeader{Arrived: &elastic.SlotArrived{Proc: a.Proc, Restarts: true}})
	return true
}

// resume starts the process that waits for the end of the one in the other place.
func (h *Host) resume(local int) {
	s := h.beside(local)
	if s == nil || s.postponed == nil {
		return
	}
	a := *s.postponed
	s.postponed = nil
	if h.result != nil {
		h.down(s, elastic.SlotExited{Proc: a.Proc, Status: "the host ends"})
		return
	}
	h.launch(s, a)
}
