// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// strictness is how much a consent must prove.
type strictness struct {
	maxAge time.Duration // of the view, 0 for any
	hold   bool          // wait for Hold before taking a dropped peer for lost
}

// answers are what has come back of one question to all.
type answers struct {
	agreed  map[string]uint64 // allocation to process
	refused map[string]bool   // allocations where nothing listens
}

// consent says why the peers that agreed are not enough
// to lead, or to form a ring on top of the given ones; nil when they are.
//
// There are two ways to be sure that no other leader can have formed, or form,
// a ring that this agent does not know of. Either a quorum of each known ring
// agrees: nobody else can get one. Or everybody agrees that the registry names,
// and every other host of the known rings is dead or no longer registered.
func (m *Machine) consent(known []Ring, got answers, how strictness) error {
	if _, ok := m.view[m.cfg.Self.AllocID]; !ok {
		return fmt.Errorf("the registry does not name this allocation (%s)", short(m.cfg.Self.AllocID))
	}
	if age := m.now - m.at; how.maxAge > 0 && age > how.maxAge {
		return fmt.Errorf("the registry was last confirmed %s ago", age.Round(100*time.Millisecond))
	}
	if !m.rings.Chosen.IsZero() && m.quorums(known, got.agreed) {
		return nil
	}
	if age := m.now - m.first; how.hold && age < m.cfg.Hold {
		return fmt.Errorf("%s more until allocations unknown here can no longer act", (m.cfg.Hold - age).Round(100*time.Millisecond))
	}
	for _, id := range sortedKeys(m.view) {
		if _, ok := got.agreed[id]; !ok && !got.refused[id] && id != m.cfg.Self.AllocID {
			return fmt.Errorf("allocation %s is registered at %s but has not answered: make that address reachable, or stop the allocation", short(id), m.view[id].Addr)
		}
	}
	for _, r := range known {
		for _, h := range r.Hosts {
			if err := m.resolved(h, got.agreed, how); err != nil {
				return fmt.Errorf("ring %d: %w", r.Generation, err)
			}
		}
	}
	return nil
}

// quorums reports whether the agreed peers hold a quorum of each ring. Only a
// host that is registered as it was then has a vote: once it was dropped, others
// may have gone on without it.
func (m *Machine) quorums(known []Ring, agreed map[string]uint64) bool {
	votes := func(h Host) bool {
		p, ok := agreed[h.AllocID]
		return ok && p == h.Process && h.Registered != 0 && m.view[h.AllocID].Registered == h.Registered
	}
	for _, r := range known {
		if !r.quorum(votes) {
			return false
		}
	}
	return len(known) > 0
}

// resolved returns nil for a host that agreed, is dead, or was dropped.
func (m *Machine) resolved(h Host, agreed map[string]uint64, how strictness) error {
	if _, ok := agreed[h.AllocID]; ok {
		return nil // by that process, or by its successor: then it is dead
	}
	if m.dead[h.process()] {
		return nil
	}
	p, ok := m.view[h.AllocID]
	if ok && p.Registered == h.Registered {
		return fmt.Errorf("host %s has not answered", short(h.AllocID))
	}
	since := m.first
	if t, ok := m.dropped[registration{h.AllocID, h.Registered}]; ok {
		since = t
	}
	if gone := m.now - since; how.hold && gone < m.cfg.Hold {
		return fmt.Errorf("host %s left the registry only %s ago", short(h.AllocID), gone.Round(100*time.Millisecond))
	}
	return nil
}

// short is how users see allocation IDs.
func short(id string) string { return id[:min(len(id), 8)] }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
