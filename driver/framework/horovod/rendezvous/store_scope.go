// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// slot returns the slot of a local rank.
func (s *Store) slot(rank int) (*localSlot, error) {
	if s.ended {
		return nil, ErrOver
	}
	slot := s.slots[rank]
	if slot == nil {
		return nil, fmt.Errorf("%w: rank %d is not of this host", ErrForeign, rank)
	}
	return slot, nil
}

// learnSet takes the first process set that a slot uses for process set 0, because
// every process makes that one first. Its hash cannot be known before.
func (s *Store) learnSet(name string) {
	mesh, set := splitSet(name)
	if s.set == "" && set != "" && mesh == scopeGlobal {
		s.set = set
		s.meshes = 2 * meshKinds
	}
}

// part returns the slot's part in a standard mesh.
func (s *Store) part(slot *localSlot, name string) (p part, ok bool) {
	mesh, set := splitSet(name)
	if set == "" {
		p, ok = slot.parts[mesh]
		return p, ok
	}
	p, ok = slot.ofSet[mesh]
	return p, ok && set == s.set
}

// scope returns the scope that a local rank means by a name, and makes it if
// needed.
func (s *Store) scope(rank int, name string) (*scope, error) {
	slot := s.slots[rank]
	id := roundID(name, slot.rounds[name])
	if c := s.scopes[id]; c != nil {
		return c, nil
	}
	c := newScope(id)
	s.classify(c, name)
	if err := s.charge(rank, c, len(id)); err != nil {
		return nil, err
	}
	s.scopes[id] = c
	return c, nil
}

// classify sets the members of a scope if its name determines them.
func (s *Store) classify(c *scope, name string) {
	mesh, _ := splitSet(name)
	for _, slot := range s.slots {
		if p, ok := s.part(slot, name); ok {
			c.size, c.locals = p.size, p.locals
			c.private = p.size == p.locals
			return
		}
		if mesh == prefixLocal+slot.host {
			c.private = true
		}
	}
}

func (s *Store) send(puts ...wire.Put) {
	s.out = append(s.out, puts...)
	s.wake()
}

// wake sends an element to News.
func (s *Store) wake() {
	if s.ended {
		return
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// charge adds the bytes that a slot is about to store in a scope to its account.
func (s *Store) charge(rank int, c *scope, bytes int) error {
	slot := s.slots[rank]
	if slot.stored+bytes+storedExtra > maxStored {
		return fmt.Errorf("%w: rank %d, %d bytes", ErrTooMuch, rank, slot.stored)
	}
	slot.stored += bytes + storedExtra
	c.charged[rank] += bytes + storedExtra
	return nil
}

// isHint reports whether key has the form rank_<i>, by which Gloo finds members on
// its own machine.
func isHint(key string) bool { return strings.HasPrefix(key, "rank_") }

func hasKey[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
