// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"fmt"
	"maps"
	"slices"
)

// answers are the answers of all peers to one request.
type answers struct {
	agreed  map[string]uint64 // allocation to process
	refused map[string]bool   // allocations where nothing listens
}

// quorum returns why the peers that agreed are not enough to lead, or to form a
// ring on top of the known ones; nil if they are enough. majority reports whether
// majorities were (see below).
//
// Either of two conditions ensures that no other leader has formed, or can form, a
// ring that this agent does not know of. Either a majority of each known ring
// agrees, so that no one else can get one. Or every agent that the registry lists
// agrees, and every other host of the known rings is dead or no longer registered.
func (m *Machine) quorum(known []Ring, got answers) (majority bool, err error) {
	if _, ok := m.view[m.cfg.Self.AllocID]; !ok {
		return false, fmt.Errorf("the registry does not name this allocation (%s)", short(m.cfg.Self.AllocID))
	}
	if !m.rings.Chosen.IsZero() && m.majorities(known, got.agreed) {
		return true, nil
	}
	for _, id := range sortedKeys(m.view) {
		if _, ok := got.agreed[id]; !ok && !got.refused[id] && id != m.cfg.Self.AllocID {
			return false, fmt.Errorf("allocation %s is registered at %s but has not answered: make that address reachable, or stop the allocation", short(id), m.view[id].Addr)
		}
	}
	for _, r := range known {
		for _, h := range r.Hosts {
			if !m.resolved(h, got.agreed) {
				return false, fmt.Errorf("ring %d: host %s has not answered", r.Generation, short(h.AllocID))
			}
		}
	}
	return false, nil
}

// majorities reports whether the agreed peers are a majority of each ring. Only a
// host with its original registration has a vote: others may have gone on without a
// host that was dropped in between.
func (m *Machine) majorities(known []Ring, agreed map[string]uint64) bool {
	votes := func(h Host) bool {
		p, ok := agreed[h.AllocID]
		return ok && p == h.Process && h.Registered != 0 && m.view[h.AllocID].Registered == h.Registered
	}
	for _, r := range known {
		if !r.majority(votes) {
			return false
		}
	}
	return len(known) > 0
}

// resolved reports whether a host agreed, is dead, or was dropped.
func (m *Machine) resolved(h Host, agreed map[string]uint64) bool {
	if _, ok := agreed[h.AllocID]; ok {
		return true // agreed as that process, or as its successor: then that process is dead
	}
	return m.dead[h.process()] || m.view[h.AllocID].Registered != h.Registered || h.Registered == 0
}

// short returns an allocation ID as users see it.
func short(id string) string { return id[:min(len(id), 8)] }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
