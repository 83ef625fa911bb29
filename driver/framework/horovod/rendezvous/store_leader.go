// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Fill takes values from the leader. It ignores values of scopes without a local
// member, and values that it has already. ErrConflict means that the ring cannot
// form.
func (s *Store) Fill(f wire.Fill) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.gone[f.Scope] {
		return nil
	}
	c := s.scopes[f.Scope]
	if !f.Complete {
		return s.fillKeys(c, f)
	}
	if c == nil || c.size == 0 {
		return nil
	}
	if len(c.owner) < c.locals || !c.agrees(f.Values) {
		return fmt.Errorf("%w: scope %s", ErrConflict, clip(f.Scope))
	}
	if c.released {
		return nil
	}
	if len(f.Values) != c.size {
		return fmt.Errorf("rendezvous: scope %s filled with %d of %d blobs", clip(f.Scope), len(f.Values), c.size)
	}
	maps.Copy(c.blobs, f.Values)
	s.release(c)
	return nil
}

// fillKeys adds values of a scope whose members are unknown.
func (s *Store) fillKeys(c *scope, f wire.Fill) error {
	if c == nil {
		c = newScope(f.Scope)
		s.classify(c, f.Scope)
	}
	if c.size > 0 || c.private {
		return fmt.Errorf("rendezvous: leader has single values of scope %s, whose members are known here", clip(f.Scope))
	}
	s.scopes[f.Scope] = c
	for key, value := range f.Values {
		switch {
		case !isBlobKey(key):
			c.notes[key] = value
		case !hasKey(c.owner, key):
			c.blobs[key] = value
		}
	}
	c.wake()
	return nil
}

// Outgoing returns the values that were not sent to the leader yet, each only once.
// If values get lost, the next Snapshot contains them again.
func (s *Store) Outgoing() []wire.Put {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.out
	s.out = nil
	return out
}

// News returns a channel that receives an element when Outgoing may have values, or
// when a slot has entered or left a mesh. One element may stand for many events.
// Close closes the channel.
func (s *Store) News() <-chan struct{} { return s.news }

// Snapshot returns everything that a new leader needs from this agent. After that,
// do not call Fill with values from the previous leader.
func (s *Store) Snapshot() wire.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	var snap wire.Snapshot
	for _, id := range slices.Sorted(maps.Keys(s.scopes)) {
		c := s.scopes[id]
		switch {
		case c.private, c.size > 0 && !c.sent:
			continue
		case c.released:
			snap.Released = append(snap.Released, id)
		}
		snap.Puts = append(snap.Puts, c.puts()...)
		if c.size == 0 {
			for _, key := range slices.Sorted(maps.Keys(c.notes)) {
				if !isHint(key) {
					snap.Puts = append(snap.Puts, wire.Put{Scope: id, Key: key, Value: c.notes[key]})
				}
			}
		}
	}
	return snap
}

// Withdraw drops the values of a slot that died, so that another process can take
// its place. If some process may already be connecting to the dead process,
// Withdraw drops nothing and returns visible; the ring will then not form.
// Otherwise the leader must withdraw puts as well, and the leader's answer decides.
func (s *Store) Withdraw(rank int) (puts []wire.Put, visible bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[rank]
	if slot == nil {
		return nil, false
	}
	if slot.visible {
		return nil, true
	}
	for _, c := range s.scopes {
		for key, owner := range c.owner {
			if owner != rank {
				continue
			}
			if c.size == 0 && !c.private || c.sent {
				puts = append(puts, wire.Put{Scope: c.id, Key: key, Value: c.blobs[key], Size: c.size})
			}
			delete(c.owner, key)
			delete(c.blobs, key)
			c.released = false // must be a mesh of one, since any other makes its slots visible
		}
		delete(c.charged, rank) // the new slot starts a new account below
	}
	s.out = slices.DeleteFunc(s.out, func(p wire.Put) bool {
		return slices.ContainsFunc(puts, func(q wire.Put) bool { return p.Scope == q.Scope && p.Key == q.Key })
	})
	s.slots[rank] = s.newSlot(rank)
	return puts, false
}
