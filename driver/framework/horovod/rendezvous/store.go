// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

var (
	// ErrOver is returned by a Store whose generation has ended. A process that still asks
	// is about to be stopped and needs no answer, so ErrOver wraps ErrHold.
	ErrOver = fmt.Errorf("rendezvous: generation is over: %w", ErrHold)
	// ErrForeign means that the key is not the slot's own.
	ErrForeign = errors.New("rendezvous: key of another slot")
	// ErrConflict means that one blob has two values, and that either may have been read.
	// The ring can no longer form; start the next generation.
	ErrConflict = errors.New("rendezvous: blob differs from the one given out")
	// ErrTooMuch means that a slot stores more than any Horovod does.
	ErrTooMuch = errors.New("rendezvous: slot stores too much")
)

// Bounds for the values of one slot. Horovod keeps at most two blobs of the global mesh at
// a time, 1.1 MiB with 4,096 ranks.
const (
	maxStored   = 16 << 20
	storedExtra = 256 // bytes charged for each value in addition to its own
)

// Store holds the keys of one generation as one agent sees them. It does no I/O: the agent
// passes the values of Outgoing to the leader's Collector, and the Collector's answers to
// Fill. All methods may be called concurrently.
type Store struct {
	mu      sync.Mutex
	members Members
	slots   map[int]*localSlot
	scopes  map[string]*scope
	// gone are the scopes that all local members have left.
	gone map[string]bool
	// set is the hash of process set 0, empty until the first slot uses it.
	set    string
	meshes int
	out    []wire.Put
	news   chan struct{}
	over   chan struct{}
	ended  bool
}

// localSlot is a member of the ring whose process runs on this agent's host.
type localSlot struct {
	host string
	// parts and ofSet are its parts in the meshes of all and of process set 0, by the
	// scope's name without process set.
	parts, ofSet map[string]part
	// rounds counts how often a scope was left.
	rounds  map[string]int
	arrived bool
	left    [2 * meshKinds]bool
	// visible means that a blob of this slot was released in a mesh with others.
	visible bool
	// stored is the number of bytes charged to this slot.
	stored int
}

// NewStore starts a generation. It returns an error for members that cannot form a ring.
func NewStore(m Members) (*Store, error) {
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("rendezvous store: %w", err)
	}
	s := &Store{
		members: m,
		slots:   make(map[int]*localSlot, len(m.Local)),
		scopes:  map[string]*scope{},
		gone:    map[string]bool{},
		meshes:  m.Meshes,
		news:    make(chan struct{}, 1),
		over:    make(chan struct{}),
	}
	for _, r := range m.Local {
		s.slots[r] = s.newSlot(r)
	}
	return s, nil
}

func (s *Store) newSlot(rank int) *localSlot {
	slot := s.members.Slots[rank]
	return &localSlot{
		host:  slot.Host,
		parts: s.members.parts(slot, false), ofSet: s.members.parts(slot, true),
		rounds: map[string]int{},
	}
}

// Put stores a value from the process of a local rank. Storing the same value again changes
// nothing.
func (s *Store) Put(rank int, name, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, err := s.slot(rank)
	if err != nil {
		return err
	}
	s.learnSet(name)
	c, err := s.scope(rank, name)
	if err != nil {
		return err
	}
	if !isBlobKey(key) {
		return s.putNote(rank, c, key, value)
	}
	if p, ok := s.part(slot, name); c.size > 0 && (!ok || key != p.key()) {
		return fmt.Errorf("%w: rank %d is not member %s of scope %s", ErrForeign, rank, clip(key), clip(name))
	}
	old, known := c.blobs[key]
	if known && bytes.Equal(old, value) && c.owner[key] == rank {
		return nil
	}
	if known && c.released {
		return fmt.Errorf("%w: key %s of scope %s", ErrConflict, key, clip(name))
	}
	if err := s.charge(rank, c, len(key)+len(value)); err != nil {
		return err
	}
	c.blobs[key] = value
	c.owner[key] = rank
	if c.id == scopeGlobal {
		slot.arrived = true
		s.wake()
	}
	s.advance(c, key)
	return nil
}

// putNote stores the value of a key that is not a number. Notes of a mesh are only hints
// (which members share a machine), so they stay on this host.
func (s *Store) putNote(rank int, c *scope, key string, value []byte) error {
	if old, ok := c.notes[key]; ok && bytes.Equal(old, value) {
		return nil
	}
	if err := s.charge(rank, c, len(key)+len(value)); err != nil {
		return err
	}
	c.notes[key] = value
	if c.size == 0 && !c.private && !isHint(key) {
		s.send(wire.Put{Scope: c.id, Key: key, Value: value})
	}
	return nil
}

// advance takes the steps that a new local blob makes possible.
func (s *Store) advance(c *scope, key string) {
	switch {
	case c.size == 0:
		c.wake()
		if !c.private {
			s.send(wire.Put{Scope: c.id, Key: key, Value: c.blobs[key]})
		}
	case c.sent:
		// The slot was restarted, and the leader knows the mesh already.
		s.send(wire.Put{Scope: c.id, Key: key, Value: c.blobs[key], Size: c.size})
	case c.complete() && c.locals == c.size:
		s.release(c)
	case c.complete():
		c.sent = true
		s.send(c.puts()...)
	}
}

// release makes the blobs of a mesh readable.
func (s *Store) release(c *scope) {
	c.released = true
	if c.size > 1 {
		for _, rank := range c.owner {
			s.slots[rank].visible = true
		}
	}
	c.wake()
}

// Get returns a value to the process of a local rank. It waits for a blob until all members
// of its mesh have stored theirs or, in a scope that is not a mesh, until the blob exists.
// It returns any other value at once.
func (s *Store) Get(ctx context.Context, rank int, name, key string) (value []byte, found bool, err error) {
	for {
		value, found, wait, err := s.read(rank, name, key)
		if wait == nil || err != nil {
			return value, found, err
		}
		select {
		case <-wait:
		case <-s.over:
			return nil, false, ErrOver
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// read looks once. wait is the channel to wait on before looking again.
func (s *Store) read(rank int, name, key string) (value []byte, found bool, wait <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, err := s.slot(rank)
	if err != nil {
		return nil, false, nil, err
	}
	if s.scopes[roundID(name, slot.rounds[name])] == nil && !isBlobKey(key) {
		return nil, false, nil, nil
	}
	c, err := s.scope(rank, name)
	if err != nil {
		return nil, false, nil, err
	}
	value, found, held := c.readable(key)
	if held {
		return nil, false, c.changed, nil
	}
	return value, found, nil, nil
}

// Delete removes the blob of a local rank. Its process deletes the blob when it has
// connected to all members of a mesh. Deleting the blob again changes nothing.
//
// Each member deletes its own blob once for each mesh. So the number of its deletions in a
// scope shows which mesh of that name it is building now. A process set that is removed and
// added again therefore never gets old addresses.
func (s *Store) Delete(rank int, name, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, err := s.slot(rank)
	if err != nil {
		return err
	}
	c := s.scopes[roundID(name, slot.rounds[name])]
	if c == nil {
		return nil
	}
	if !isBlobKey(key) {
		delete(c.notes, key)
		return nil
	}
	if owner, ok := c.owner[key]; !ok || owner != rank {
		return nil
	}
	if c.size > 0 && !c.released {
		return fmt.Errorf("rendezvous: rank %d leaves scope %s, which is not complete", rank, clip(name))
	}
	c.left[rank] = true
	slot.rounds[name]++
	if p, ok := s.part(slot, name); ok {
		slot.left[p.stage] = true
		s.wake()
	}
	s.drop(c)
	return nil
}

// drop removes a scope that all its local members have left.
func (s *Store) drop(c *scope) {
	for _, rank := range c.owner {
		if !c.left[rank] {
			return
		}
	}
	if c.size > 0 && len(c.owner) < c.locals {
		return
	}
	for rank, bytes := range c.charged {
		s.slots[rank].stored -= bytes
	}
	delete(s.scopes, c.id)
	s.gone[c.id] = true
}

// Close ends the generation. Waiting requests and all later requests return ErrOver, and
// News is closed.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	close(s.over)
	close(s.news)
	clear(s.scopes)
	s.out = nil
}
