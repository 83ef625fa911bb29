// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// Event is something that happened. All events may come late, twice or for a
// process that is gone; the machine sorts that out.
type Event interface{ event() }

// HostJoined says that an agent registered, for the first time or again after
// its connection or the leader was lost.
type HostJoined struct{ Info HostInfo }

// HostLeaving says that a host's task was told to stop. Its processes go on
// until the ring has let them go, or Deadline is near.
type HostLeaving struct {
	Host HostID
	// Deadline is when its processes will be killed; zero is unknown.
	Deadline time.Time
}

// HostSlots says that a host now offers another number of slots; the highest
// go first. Hosts that are allocations keep theirs, those that a discovery
// script lists may not.
type HostSlots struct {
	Host  HostID
	Slots int
}

// HostLost says that a host is gone or can't be reached: its agent ended, its
// connection timed out, or Nomad dropped it.
type HostLost struct{ Host HostID }

// SlotArrived says that a started process sent its first request and is held.
type SlotArrived struct{ Proc Proc }

// SlotWaiting says that a process left the ring of Generation and asks for its
// next rank; it is held.
type SlotWaiting struct {
	Proc       Proc
	Generation uint64
}

// SlotUp says that a process finished Horovod's rendezvous of Generation.
type SlotUp struct {
	Proc       Proc
	Generation uint64
}

// SlotNotifiable says that a process can be told of changes.
type SlotNotifiable struct{ Proc Proc }

// Trained says that a ring made a step: all its members hold the state.
type Trained struct{ Generation uint64 }

// Stalled says that a ring has made no step for too long: one of its processes
// hangs.
type Stalled struct{ Generation uint64 }

// SlotExited says that a process ended.
type SlotExited struct {
	Proc Proc
	// Success is exit code 0.
	Success bool
	// Aborted is SIGABRT, which is how Horovod ends a process whose peers
	// vanished while they connected; it is not the process's own fault.
	Aborted bool
	// Visible says that the process's addresses of the ring now forming were
	// handed to others, so that it can't be replaced in place.
	Visible bool
	// Status is for people: "exit code 3", "signal: killed".
	Status string
}

// Quorum says whether the leader may form rings.
type Quorum struct {
	OK     bool
	Reason string
}

// Tick says that time has passed; see Machine.Deadline.
type Tick struct{}

func (HostJoined) event()     {}
func (HostLeaving) event()    {}
func (HostSlots) event()      {}
func (HostLost) event()       {}
func (SlotArrived) event()    {}
func (SlotWaiting) event()    {}
func (SlotUp) event()         {}
func (SlotNotifiable) event() {}
func (Trained) event()        {}
func (Stalled) event()        {}
func (SlotExited) event()     {}
func (Quorum) event()         {}
func (Tick) event()           {}
