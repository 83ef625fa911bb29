// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"cmp"
	"slices"
)

// Host is one agent process as a member of a ring. A restarted agent, or one
// that Nomad dropped and registered again, is not the same host any more: it has
// lost its vote on what comes after that ring.
type Host struct {
	AllocID string
	// Process is drawn at random by each agent process.
	Process uint64
	// Registered is the create index of the service registration.
	Registered uint64
}

// Ring is a set of hosts that were allowed to train together.
type Ring struct {
	// Term and Leader name who formed it.
	Term   uint64
	Leader string
	// Generation is the ring's number, higher in each ring of a job.
	Generation uint64
	// Hosts are in the leader's order; the first one breaks ties.
	Hosts []Host
}

// IsZero reports whether there is no ring.
func (r Ring) IsZero() bool { return len(r.Hosts) == 0 }

// Compare orders rings by term, leader and generation.
func (r Ring) Compare(o Ring) int {
	return cmp.Or(cmp.Compare(r.Term, o.Term), cmp.Compare(r.Leader, o.Leader), cmp.Compare(r.Generation, o.Generation))
}

// Has reports whether the allocation is a host of r.
func (r Ring) Has(allocID string) bool {
	return slices.ContainsFunc(r.Hosts, func(h Host) bool { return h.AllocID == allocID })
}
