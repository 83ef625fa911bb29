// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// If processes can't change their ring, those of the next ring start while those of the
// current one train. So each slot has two places, entries i and width+i of Host.slots. They
// share the GPU, the local rank, the slot's number in messages, and the count of its
// failures.

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

// number returns the number of an entry's slot, as messages and scripts use it.
func (h *Host) number(local int) int { return elastic.SlotNumber(local, h.width) }

// sibling returns the other entry of an entry's slot, or nil if there is none.
func (h *Host) sibling(local int) *slot {
	if h.width == 0 {
		return nil
	}
	return h.slots[(local+h.width)%len(h.slots)]
}

// starts returns how often an entry's slot has been started.
func (h *Host) starts(local int) int {
	n := h.slots[local].Incarnation
	if other := h.sibling(local); other != nil {
		n += other.Incarnation
	}
	return n
}

// postpone delays the start of a process if there is too little memory for it and the other
// process of its slot. It reports the process to the leader as arrived, so that the current
// ring ends and the next one can form.
func (h *Host) postpone(s *slot, a elastic.Start) bool {
	other := h.sibling(a.Proc.Slot.Local)
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

// resume starts a postponed process after the process in the other place has ended.
func (h *Host) resume(local int) {
	s := h.sibling(local)
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
