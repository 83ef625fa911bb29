// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

// Action is an instruction to the leader.
type Action interface{ action() }

// Start starts a process with its assignment in the next ring.
type Start struct {
	Proc       Proc
	Assignment Assignment
	// Generation is set if the process replaces one that died while this ring forms. The
	// process is then admitted at once.
	Generation uint64
	// Surrogate is set if the process replaces rank 0 and does not have its state. It
	// completes the rendezvous for the others, but its own last request is kept waiting, so
	// that it never broadcasts. It is killed when the others are up; they then recover and
	// form the next ring without it.
	Surrogate bool
}

// Stop ends a process: SIGTERM, and SIGKILL a moment later.
type Stop struct {
	Proc   Proc
	Reason string
	// Kill skips SIGTERM, because the process can't react to it.
	Kill bool
	// Retire lets a waiting process that has no place in the next ring end by itself,
	// within the time that its host has left. Kill is set as well, for hosts of an earlier
	// version that ignore Retire.
	Retire bool
}

// Form admits the waiting members to a ring. The leader sends it to every host, and again
// when a host registers again. It takes effect only once for each process.
type Form struct {
	Ring Ring
	// Hosts limits the action to some hosts; nil means all.
	Hosts []HostID
}

// Synced tells every host that all members of a ring have the training state. A host that
// registers again includes this fact in its report.
type Synced struct{ Generation uint64 }

// Failed tells a host to count the end of a member as a failure of its slot. The host repeats
// this when it registers again. It is needed only if processes can't change their ring: there,
// one crash makes the other members crash, too, and only the machine knows which one was
// first.
type Failed struct{ Slot SlotID }

// Notify notifies the process with rank 0 that hosts changed. If processes can't change
// their ring, every member gets a notice, and should save a checkpoint and end.
type Notify struct {
	Proc       Proc
	Generation uint64
}

// Break cuts the connections of a ring that lost a member, so that the other members notice
// before a time-out.
type Break struct{ Generation uint64 }

// ReleaseHost lets a host end, because its processes are gone.
type ReleaseHost struct {
	Host HostID
	// Failed asks Nomad to place the host's allocation elsewhere.
	Failed bool
	Reason string
}

// End ends the job: no process is left, and every agent should exit.
type End struct {
	Success bool
	Reason  string
}

// TaskEvent is a message for the user, shown as a Nomad task event. Host is empty if it
// concerns the whole job.
type TaskEvent struct {
	Host HostID
	Text string
}

func (Start) action()       {}
func (Stop) action()        {}
func (Form) action()        {}
func (Synced) action()      {}
func (Failed) action()      {}
func (Notify) action()      {}
func (Break) action()       {}
func (ReleaseHost) action() {}
func (End) action()         {}
func (TaskEvent) action()   {}
