// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

// HostID identifies one run of one agent. An allocation that restarts its task gets another
// HostID.
type HostID string

// SlotID identifies a slot for a training process: its host and its index there.
type SlotID struct {
	Host  HostID `json:"host"`
	Local int    `json:"local"`
}

func (s SlotID) String() string { return fmt.Sprintf("%s:%d", s.Host, s.Local) }

// Proc identifies one process of a slot. Incarnations count from 1.
type Proc struct {
	Slot        SlotID `json:"slot"`
	Incarnation int    `json:"incarnation"`
}

func (p Proc) String() string { return fmt.Sprintf("%s#%d", p.Slot, p.Incarnation) }

// Assignment is the position of a process in the ring: Horovod's SlotInfo
// (horovod/runner/common/util/hosts.py).
type Assignment struct {
	Rank      int `json:"rank"`
	Size      int `json:"size"`
	LocalRank int `json:"local_rank"`
	LocalSize int `json:"local_size"`
	CrossRank int `json:"cross_rank"`
	CrossSize int `json:"cross_size"`
}

// Member is one process of a ring with its assignment.
type Member struct {
	Proc       Proc       `json:"proc"`
	Assignment Assignment `json:"assignment"`
	// SyncedSince is the generation since which the process has the training state. It is 0
	// if the process receives the state from rank 0 as this ring forms.
	SyncedSince uint64 `json:"synced_since"`
}

// Ring is a set of processes that train together. Members[r] has rank r. Members of one
// host are contiguous, unless the ring has replicas.
type Ring struct {
	// Generation goes up by one with each ring of a job.
	Generation uint64 `json:"generation"`
	// Term is the term of the leader that formed the ring.
	Term    uint64   `json:"term"`
	Members []Member `json:"members"`
	// Replica is the number of members in each replica, 0 if each member has the whole
	// state; see replica.go.
	Replica int `json:"replica,omitempty"`
	// Restarts states that its members can't change their ring; see SlotArrived.
	Restarts bool `json:"restarts,omitempty"`
	// Attests states that the leader checks the connections of the members before they may
	// exchange the training state.
	Attests bool `json:"attests,omitempty"`
}

// Hosts returns the ring's hosts in rank order.
func (r *Ring) Hosts() []HostID {
	if r == nil {
		return nil
	}
	var hosts []HostID
	for _, m := range r.Members {
		if n := len(hosts); n == 0 || hosts[n-1] != m.Proc.Slot.Host && (r.Replica == 0 || !slices.Contains(hosts, m.Proc.Slot.Host)) {
			hosts = append(hosts, m.Proc.Slot.Host)
		}
	}
	return hosts
}

// Find returns the member of the ring that runs in the slot, or nil if there is none.
func (r *Ring) Find(s SlotID) *Member {
	if r == nil {
		return nil
	}
	for i := range r.Members {
		if r.Members[i].Proc.Slot == s {
			return &r.Members[i]
		}
	}
	return nil
}

// clone returns a copy of the ring for an action. The machine changes its own ring when a
// member is replaced in place, while agents read theirs.
func (r *Ring) clone() Ring {
	c := *r
	c.Members = slices.Clone(r.Members)
	return c
}

// Newer reports whether r replaces o: it has the higher generation or, if the
// generations are equal, the later leader.
func (r *Ring) Newer(o *Ring) bool {
	if r == nil || o == nil {
		return r != nil
	}
	if r.Generation != o.Generation {
		return r.Generation > o.Generation
	}
	return r.Term > o.Term
}

// SlotState is the state of a slot; see the package comment.
type SlotState int

// The states of a slot.
const (
	Down SlotState = iota
	Starting
	Arrived
	InRing
	Waiting
)

func (s SlotState) String() string {
	return [...]string{"down", "starting", "arrived", "in-ring", "waiting"}[s]
}

// SlotReport describes a slot when its agent registers.
type SlotReport struct {
	State       SlotState `json:"state"`
	Incarnation int       `json:"incarnation"`
	// Assignment is the place that a Starting or Arrived process was started for.
	Assignment Assignment `json:"assignment"`
	// Generation is that of the last ring that admitted the process, 0 if none did.
	Generation uint64 `json:"generation"`
	// SyncedSince is the generation since which the process has the training state, 0 if
	// the agent does not know that it does; see Form and Synced.
	SyncedSince uint64 `json:"synced_since"`
	// Up states that the process is connected to all others in the ring Generation. It
	// remains set while the process waits for the next ring.
	Up         bool `json:"up"`
	Notifiable bool `json:"notifiable"`
	// Restarts states that the process can't change its ring; see SlotArrived.
	Restarts  bool `json:"restarts,omitempty"`
	Surrogate bool `json:"surrogate,omitempty"`
	// Retiring states that the process was asked to retire; see Stop.Retire.
	Retiring bool `json:"retiring,omitempty"`
	// Idle states that the process is idle in its broken ring; see SlotIdle.
	Idle bool `json:"idle,omitempty"`
	// Failures is the number of failures that counted at the last one, and FailedAgo the
	// time in seconds since then; see Forgive.
	Failures  int     `json:"failures"`
	FailedAgo float64 `json:"failed_ago,omitempty"`
}

func (r SlotReport) sinceFailure() time.Duration {
	return time.Duration(r.FailedAgo * float64(time.Second))
}

// HostInfo describes a host when it registers with the leader.
type HostInfo struct {
	ID HostID `json:"id"`
	// Group and Index order the hosts: by group name, then allocation index.
	Group string `json:"group"`
	Index int    `json:"index"`
	// Topology is the host's place in the network, or empty; see CheckTopology.
	Topology string `json:"topology,omitempty"`
	// Slots holds one entry per slot, by slot number, and then their standbys, from entry
	// Width on; Width 0 means that there are none. Standby Width+i runs on the GPU of slot
	// i. While one of the two entries trains, the process of the other is for a later ring.
	Slots []SlotReport `json:"slots"`
	Width int          `json:"width,omitempty"`
	// Ring is the newest ring that the host knows of, or nil.
	Ring *Ring `json:"ring,omitempty"`
	// Resets is the number of rings that replaced an earlier one, as far as the host knows.
	Resets int `json:"resets"`
	// Noticed is the generation of the last ring that was notified, as far as the host
	// knows. If members can't change their ring, the host has asked its own to end.
	Noticed uint64 `json:"noticed,omitempty"`
	// Reassigns states that a process of the host that waits for its first ring can take
	// another rank than the one for which it was started. Processes that can't change their
	// ring, and processes on hosts of older versions, never can.
	Reassigns bool `json:"reassigns,omitempty"`
	// Leaving states that the host's task is being stopped. LeavesIn is the time in seconds
	// until the host kills its processes, 0 if unknown.
	Leaving  bool    `json:"leaving,omitempty"`
	LeavesIn float64 `json:"leaves_in,omitempty"`
	// Dropped states that Nomad has given up the host's allocation, for example after its
	// node was disconnected for too long. No later ring includes the host.
	Dropped bool `json:"dropped,omitempty"`
	// Completed states that one of the host's processes exited with 0.
	Completed bool `json:"completed,omitempty"`
	// CompletedIn is the generation of the ring in which that process exited, 0 if the host
	// learned of the completion from a leader.
	CompletedIn uint64 `json:"completed_in,omitempty"`
}
