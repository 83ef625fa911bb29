// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

// Up reports whether a slot has left the last mesh of its initialisation.
func (s *Store) Up(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[rank]
	if slot == nil {
		return false
	}
	if s.meshes == meshKinds {
		return slot.left[stageCross]
	}
	return slot.left[stageCross+meshKinds]
}

// Initialized tells the store that a process has finished its initialisation. The
// agent knows it from the process's PUT of worker_addresses. If the process has
// built no mesh of a process set by then, its version of Horovod builds only three
// meshes. The store needs this call, or Members.Meshes, to know when a slot of such
// a version is up.
func (s *Store) Initialized(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.slots[rank]; slot != nil && s.meshes == 0 && slot.left[stageCross] {
		s.meshes = meshKinds
		s.wake()
	}
}

// Meshes returns how many meshes this Horovod builds: 6, 3, or 0 if not known.
func (s *Store) Meshes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.meshes
}
