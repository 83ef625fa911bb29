// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

// HostID names one run of one agent. An allocation that restarts its task
// comes back under another HostID.
type HostID string

// SlotID names a slot for a training process: the host and the local rank.
type SlotID struct {
	Host  HostID `json:"host"`
	Local int    `json:"local"`
}

func (s SlotID) String() string { return fmt.Sprintf("%s:%d", s.Host, s.Local) }

// Proc names one process of a slot. Incarnations count from 1.
type Proc struct {
	Slot        SlotID `json:"slot"`
	Incarnation int    `json:"incarnation"`
}

func (p Proc) String() string { return fmt.Sprintf("%s#%d", p.Slot, p.Incarnation) }

// Assignment is the position of a process in the ring, Horovod's slot info
// (horovod/runner/common/util/hosts.py, SlotInfo).
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
	// SyncedSince is the generation since which the process holds the training
	// state, 0 when it gets it from rank 0 as this ring forms.
	SyncedSince uint64 `json:"synced_since"`
}

// Ring is a set of processes that train together. Members[r] has rank r, and
// members of one host are contiguous, unless they are in replicas.
type Ring struct {
	// Generation goes up by one with each ring of a job.
	Generation uint64 `json:"generation"`
	// Term is the term of the leader that formed the ring.
	Term    uint64   `json:"term"`
	Members []Member `json:"members"`
	// Replica is the number of members of a replica, 0 where each is one; see replica.go.
	Replica int `json:"replica,omitempty"`
	// Restarts reports that its members can't change their ring; see SlotArrived.
	Restarts bool `json:"restarts,omitempty"`
	// Attests reports that the leader compares the connections of its members before
	// they may exchange the training state.
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

// Find returns the member that holds the slot, or nil.
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

// clone returns a copy for an action: the machine changes its own ring when a
// member is replaced in place, while agents read theirs.
func (r *Ring) clone() Ring {
	c := *r
	c.Members = slices.Clone(r.Members)
	return c
}

// Newer reports whether r replaces o: it has the higher generation or, of one
// generation, the later leader.
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

// SlotReport is what an agent knows of one of its slots when it registers.
type SlotReport struct {
	State       SlotState `json:"state"`
	Incarnation int       `json:"incarnation"`
	// Assignment is what a Starting or Arrived process was started for.
	Assignment Assignment `json:"assignment"`
	// Generation is the last ring that admitted the process, 0 when none.
	Generation uint64 `json:"generation"`
	// SyncedSince is the generation since which it holds the training state, 0 when
	// the agent does not know that it does; see Form and Synced.
	SyncedSince uint64 `json:"synced_since"`
	Up          bool   `json:"up"`
	Notifiable  bool   `json:"notifiable"`
	// Restarts reports that the process can't change its ring; see SlotArrived.
	Restarts  bool `json:"restarts,omitempty"`
	Surrogate bool `json:"surrogate,omitempty"`
	// Retiring reports that it was told that it has no next place; see Stop.Retire.
	Retiring bool `json:"retiring,omitempty"`
	// Idle reports that it does nothing in its ring, which broke; see SlotIdle.
	Idle bool `json:"idle,omitempty"`
	// Failures is how many counted at the last one, FailedAgo the seconds since
	// that; see Forgive.
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
	// Topology is the host's place in the network, empty where it gives none; see
	// CheckTopology.
	Topology string `json:"topology,omitempty"`
	// Slots has one entry per slot, by local rank. Slots from Width on are standbys:
	// slot Width+i runs on the GPU of slot i, and its process is for a later ring
	// while that of slot i trains, or the other way round. Width 0: there are none.
	Slots []SlotReport `json:"slots"`
	Width int          `json:"width,omitempty"`
	// Ring is the newest ring that the host knows of, nil when none.
	Ring *Ring `json:"ring,omitempty"`
	// Resets is the number of re-formed rings the host has seen.
	Resets int `json:"resets"`
	// Noticed is the generation of the last ring that had a notice, as far as the host
	// knows; where members can't change their ring, it has asked its own to end.
	Noticed uint64 `json:"noticed,omitempty"`
	// Leaving reports that the host's task is being stopped, LeavesIn the seconds
	// until it kills its processes, 0 when unknown.
	Leaving  bool    `json:"leaving,omitempty"`
	LeavesIn float64 `json:"leaves_in,omitempty"`
	// Dropped reports that Nomad has given the host up, for example after its
	// node was disconnected for too long. No later ring includes it.
	Dropped bool `json:"dropped,omitempty"`
	// Completed reports that one of the host's processes exited 0.
	Completed bool `json:"completed,omitempty"`
	// CompletedIn is the generation of the ring of the process that exited 0; 0 where
	// the host knows the end from a leader.
	CompletedIn uint64 `json:"completed_in,omitempty"`
}
