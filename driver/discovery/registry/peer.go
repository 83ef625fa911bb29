// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/discovery/election"
)

// Peer is one instance of the job's service: one allocation, one agent.
type Peer = election.Peer

// View is one reading of the registry, or the reason why it failed.
type View struct {
	// Peers are this job's instances, ordered by allocation ID. If Err is set, they
	// are those of the last successful read.
	Peers []Peer
	// At is when the last successful read was sent: Peers includes everything
	// recorded before. It is zero before the first success.
	At time.Time
	// Index grows with the registry's content.
	Index uint64
	// Err states why the registry could not be read, and what to do about it.
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

// groupOf reads the task group from the ID of a group service's registration:
// _nomad-task-<alloc>-group-<group>-<service>-<port>. It returns "" for a task's
// own service, whose ID names the task.
func groupOf(id, allocID, service string) string {
	rest, ok := strings.CutPrefix(id, "_nomad-task-"+allocID+"-group-")
	// Groups and service names may hold dashes; port labels rarely do.
	i := strings.LastIndex(rest, "-"+service+"-")
	if !ok || i < 0 {
		return ""
	}
	return rest[:i]
}
