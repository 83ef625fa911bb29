// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import "github.com/hashicorp/go-hclog"

// Limits are limits for tests.
type Limits = limits

// ListenLimits is Listen with limits of the test's.
func ListenLimits(h Handler, gate Gate, logger hclog.Logger, bounds Limits) (*Endpoint, error) {
	return listen(h, gate, logger, bounds)
}

// Removed is the answer for a slot that has no place in the next ring.
func Removed() Assignment { return removed }

// Arrived reports whether a slot waits in, or has passed, the ring's first mesh:
// its process has started up and holds the rank it was given.
func (s *Store) Arrived(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[rank]
	return slot != nil && slot.arrived
}
