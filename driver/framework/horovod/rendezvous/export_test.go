// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"cmp"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// Limits are limits for tests.
type Limits = limits

// ListenLimits is Listen with limits of the test's; those that are 0 are the default.
func ListenLimits(h Handler, callers gate.Callers, logger hclog.Logger, bounds Limits) (*Endpoint, error) {
	return listen(h, callers, logger, Limits{
		Body: cmp.Or(bounds.Body, defaultLimits.Body), Name: cmp.Or(bounds.Name, defaultLimits.Name), Conns: cmp.Or(bounds.Conns, defaultLimits.Conns),
		Header: cmp.Or(bounds.Header, defaultLimits.Header), Transfer: cmp.Or(bounds.Transfer, defaultLimits.Transfer),
	})
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
