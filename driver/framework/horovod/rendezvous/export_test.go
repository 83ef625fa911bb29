// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"cmp"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// Limits exports limits for tests.
type Limits = limits

// ListenLimits is Listen with the given limits; 0 means the default.
func ListenLimits(h Handler, callers gate.Callers, logger hclog.Logger, bounds Limits) (*Endpoint, error) {
	return listen(h, callers, logger, Limits{
		Body: cmp.Or(bounds.Body, defaultLimits.Body), Name: cmp.Or(bounds.Name, defaultLimits.Name), Conns: cmp.Or(bounds.Conns, defaultLimits.Conns),
		Header: cmp.Or(bounds.Header, defaultLimits.Header), Transfer: cmp.Or(bounds.Transfer, defaultLimits.Transfer),
	})
}

// Removed returns the answer for a slot without a place in the next ring.
func Removed() Assignment { return removed }

// Arrived reports whether a slot waits in the ring's first mesh or has passed it. Its
// process has then started up and has its rank.
func (s *Store) Arrived(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[rank]
	return slot != nil && slot.arrived
}
