// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"slices"
	"time"
)

// Peer is one instance of the job's service: one allocation, one agent.
type Peer struct {
	AllocID   string
	JobID     string
	Namespace string
	// Group is the task group, empty where the registration does not tell.
	Group  string
	NodeID string
	// Addr is the agent's service address, "host:port".
	Addr string
	// Index is the allocation's index within its group, -1 when not known: the
	// registry does not say, the peer itself does.
	Index int
	// Registered is the registration's create index in Nomad. It tells a
	// registration from a later one of the same allocation.
	Registered uint64
}

// View is what the registry held, or why that cannot be told.
type View struct {
	// Peers are this job's instances, ordered by allocation ID. With Err set
	// they are those of the last good read.
	Peers []Peer
	// At is a time before which nothing was recorded that Peers lacks: when the
	// last good read was sent. Zero when none succeeded yet.
	At time.Time
	// Err says why the registry could not be read, and what to do about it.
	Err error
}

// Find returns the peer with the allocation ID, and whether there is one.
func (v View) Find(allocID string) (Peer, bool) {
	i := slices.IndexFunc(v.Peers, func(p Peer) bool { return p.AllocID == allocID })
	if i < 0 {
		return Peer{}, false
	}
	return v.Peers[i], true
}

// Registry tells who the peers of a job are.
type Registry interface {
	// Watch sends a view whenever the registry changed, was confirmed or failed
	// to answer, the latest one only. It ends, and closes the channel, with ctx.
	Watch(ctx context.Context) <-chan View
	// Read asks the registry now.
	Read(ctx context.Context) View
}
