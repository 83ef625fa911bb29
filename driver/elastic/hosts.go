// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

type slot struct {
	state       SlotState
	incarnation int
	assignment  Assignment // what a Starting or Arrived process was started for
	generation  uint64     // last ring it was admitted to
	syncedSince uint64     // generation since which it has the state, 0 if it does not
	up          bool       // finished the rendezvous of its ring
	notifiable  bool
	surrogate   bool // replaces rank 0 in the rendezvous; see Start
	idle        bool // does nothing in a broken ring
	admitted    bool // part of the current batch of newcomers
	leaving     bool // its host no longer offers it
	stopping    bool // was sent a Stop, which may take long if it is to retire
	restage     bool // will be started again, with another assignment
	started     time.Time
	failures    int
	failedAt    time.Time // last failure
	retryAt     time.Time // not started before
}

// newSlot returns the slot as its host reports it.
func newSlot(r SlotReport, now time.Time) slot {
	return slot{state: r.State, incarnation: r.Incarnation, assignment: r.Assignment, generation: r.Generation,
		syncedSince: r.SyncedSince, up: r.Up, notifiable: r.Notifiable, surrogate: r.Surrogate, idle: r.Idle, stopping: r.Retiring,
		admitted: r.State != Down, started: now, failures: r.Failures, failedAt: now.Add(-r.sinceFailure())}
}

// skipTo prevents a slot from giving two processes the same name. A process that should
// have replaced the member in place may never have been started, but a ring that may still
// admit it contains its name.
func (s *slot) skipTo(mem *Member) { s.incarnation = max(s.incarnation, mem.Proc.Incarnation) }

// unsynced sorts after every generation.
const unsynced = uint64(math.MaxUint64)

type host struct {
	id         HostID
	group      string
	index      int
	topology   string // its domains in the network; see CheckTopology
	slots      []slot
	width      int  // slots from this number on are standbys; 0: there are none
	reassigns  bool // see HostInfo.Reassigns
	outside    bool // must stay outside the ring, if spares are kept; see spare.go
	spare      bool // outside, and its processes must be ready
	announced  bool // was reported as a spare that is ready
	registered bool // false: a placeholder for a host of an adopted ring
	leaving    bool
	leaveBy    time.Time // until when it waits for processes that replace its own
	failed     bool      // to be given back to Nomad
	failReason string
	released   bool
}

// fail counts a failure of a slot in each of its entries. It returns the number of failures
// that still count, and the delay before the slot's next process starts.
func (h *host) fail(local int, now time.Time) (failures int, delay time.Duration) {
	for _, s := range h.entries(h.number(local)) {
		s.failures = Forgive(s.failures, now.Sub(s.failedAt)) + 1
		s.failedAt = now
		failures, delay = s.failures, backoff(s.failures)
		s.retryAt = now.Add(delay)
	}
	return failures, delay
}

// staying reports whether the host may have slots of a later ring.
func (h *host) staying() bool { return !h.leaving && !h.failed }

// giveBack marks a host for replacement by Nomad.
func (h *host) giveBack(format string, args ...any) {
	h.failed, h.failReason = true, fmt.Sprintf(format, args...)
}

// syncOrder orders hosts: those with a slot that has had the state longest come first.
func (h *host) syncOrder() uint64 {
	first := unsynced
	for i := range h.slots {
		if s := &h.slots[i]; s.syncedSince > 0 && s.state != Down && !s.stopping {
			first = min(first, s.syncedSince)
		}
	}
	return first
}

// sorted returns the hosts in the order in which they get ranks. Those that have had the
// state longest come first, then the order is that of the newest ring, then that of group
// and index.
//
// Each event of each process needs the order, so it is sorted from the last one, which takes
// time in proportion to the number of hosts if it has not changed.
func (m *Machine) sorted() []*host {
	type key struct {
		*host
		sync uint64
		at   int // in the newest ring
	}
	position := m.placesInRing()
	keys := make([]key, 0, len(m.hosts))
	add := func(h *host) {
		at, ok := position[h.id]
		if !ok {
			at = math.MaxInt
		}
		keys = append(keys, key{h, h.syncOrder(), at})
	}
	known := 0
	for _, h := range m.order {
		if m.hosts[h.id] == h {
			add(h)
			known++
		}
	}
	if known < len(m.hosts) { // some are new
		keys = keys[:0]
		for _, h := range m.hosts {
			add(h)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.sync, b.sync), cmp.Compare(a.at, b.at),
			cmp.Compare(a.group, b.group), cmp.Compare(a.index, b.index), cmp.Compare(a.id, b.id))
	})
	m.order = make([]*host, len(keys)) // callers keep the earlier one
	for i, k := range keys {
		m.order[i] = k.host
	}
	return m.order
}

// placesInRing returns the positions of the hosts in the newest ring.
func (m *Machine) placesInRing() map[HostID]int {
	if m.placed.of != m.last || m.placed.at == nil {
		m.placed.of, m.placed.at = m.last, map[HostID]int{}
		for i, id := range m.last.Hosts() {
			m.placed.at[id] = i
		}
	}
	return m.placed.at
}

// each calls f for every slot, in the order of sorted.
func (m *Machine) each(f func(h *host, p Proc, s *slot)) {
	for _, h := range m.sorted() {
		for l := range h.slots {
			s := &h.slots[l]
			f(h, Proc{Slot: SlotID{h.id, l}, Incarnation: s.incarnation}, s)
		}
	}
}

func (m *Machine) slot(s SlotID) *slot {
	h := m.hosts[s.Host]
	if h == nil || s.Local < 0 || s.Local >= len(h.slots) {
		return nil
	}
	return &h.slots[s.Local]
}

// proc returns the slot that currently runs p, or nil if p is gone.
func (m *Machine) proc(p Proc) *slot {
	s := m.slot(p.Slot)
	if s == nil || s.incarnation != p.Incarnation || s.state == Down {
		return nil
	}
	return s
}
