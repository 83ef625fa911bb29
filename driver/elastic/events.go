// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// Event tells the machine of something that happened. Any event may come late, come twice,
// or concern a process that is gone.
type Event interface{ event() }

// HostJoined reports that an agent registered, for the first time or again after
// its connection or the leader was lost.
type HostJoined struct{ Info HostInfo }

// HostLeaving reports that a host's task is being stopped. Its processes keep training
// until a ring without them forms.
type HostLeaving struct {
	Host HostID
	// Within is the time until the host kills them, 0 if unknown.
	Within time.Duration
}

// HostSlots reports that a host now offers another number of slots. The slots with the
// highest numbers leave first. An allocation's number of slots is constant; the number of a
// host from a discovery script may change.
type HostSlots struct {
	Host  HostID
	Slots int
}

// Scaled reports the size of each group for which the autoscaler has stated it; see spare.go.
type Scaled struct{ Groups map[string]GroupSize }

// GroupSize is how many hosts of a group should train, and how many more should be spares.
type GroupSize struct{ Train, Spare int }

// HostLost reports that a host is gone or unreachable: its agent ended, its
// connection timed out, or Nomad dropped it.
type HostLost struct{ Host HostID }

// SlotArrived reports that a started process sent its first request and waits.
type SlotArrived struct {
	Proc Proc
	// Restarts states that the process can't change its ring: its rank and size are in its
	// environment, and for each ring another process replaces it.
	Restarts bool
}

// SlotWaiting reports that a process left the ring with the number Generation, and waits
// for its rank in the next ring.
type SlotWaiting struct {
	Proc       Proc
	Generation uint64
	// Retiring states that its host has asked it to retire, see Stop.Retire. A leaving host
	// decides that by itself while it has no leader.
	Retiring bool `json:",omitempty"`
}

// SlotUp reports that a process is connected to all others in the ring with the number
// Generation.
type SlotUp struct {
	Proc       Proc
	Generation uint64
}

// SlotNotifiable reports that a process accepts notices.
type SlotNotifiable struct{ Proc Proc }

// SlotIdle reports that a process in a broken ring became idle, or is busy again; see
// IdleTime.
type SlotIdle struct {
	Proc       Proc
	Generation uint64
	Idle       bool
}

// Trained reports that a ring made a step. It shows that all members of the ring have the
// training state.
type Trained struct{ Generation uint64 }

// Stalled reports that a ring made no step for too long, because one of its processes
// hangs, and that the leader has cut its connections.
type Stalled struct {
	Generation uint64
	// Causes are the processes that are known to be the cause, and Why states what they do,
	// for messages. If there are none, the cause is a process that does not leave.
	Causes []Proc
	Why    string
	// Doubtful states that the time was derived from earlier steps. If no member leaves the
	// ring, none waits for another, so all may be working; each then has CommitTimeout.
	Doubtful bool
}

// Intruded reports that a process outside the ring is connected to a member. The ring
// is broken, so that the next one forms without that process.
type Intruded struct{ Generation uint64 }

// SlotExited reports that a process ended.
type SlotExited struct {
	Proc Proc
	// Aborted states that the framework ended the process because its peers vanished. It is
	// not the process's own fault.
	Success bool
	// Visible states that other processes have read the process's addresses for the ring
	// that forms, so that it can't be replaced in place.
	Aborted bool
	// Noticed states that the host had asked the process to end; see HostInfo.Noticed. A
	// leaving host decides that by itself while its leader may form no rings.
	Visible bool
	// Noticed reports that the host had asked it to end; see HostInfo.Noticed. A host
	// that leaves does so by itself while its leader may form no rings.
	Noticed bool
	// Status is for messages: "exit code 3", "signal: killed".
	Status string
}

// Quorum reports whether the leader may form rings.
type Quorum struct {
	OK     bool
	Reason string
}

// Tick reports that time has passed; see Machine.Deadline.
type Tick struct{}

func (HostJoined) event()     {}
func (HostLeaving) event()    {}
func (HostSlots) event()      {}
func (Scaled) event()         {}
func (HostLost) event()       {}
func (SlotArrived) event()    {}
func (SlotWaiting) event()    {}
func (SlotUp) event()         {}
func (SlotNotifiable) event() {}
func (SlotIdle) event()       {}
func (Trained) event()        {}
func (Stalled) event()        {}
func (Intruded) event()       {}
func (SlotExited) event()     {}
func (Quorum) event()         {}
func (Tick) event()           {}
