// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// OnRingLost selects what the machine does when no process with the training state is left.
// It does not apply to processes that can't change their ring: these start again in any
// case.
type OnRingLost int

// Values of OnRingLost.
const (
	// Fail ends the job with an error.
	Fail OnRingLost = iota
	// Restart starts all slots again; the script resumes from its own checkpoint.
	Restart
)

// Framework describes the training framework to the machine.
type Framework struct {
	// Name, Rendezvous and Entry are terms for messages: the framework's name, the
	// rendezvous that a process contacts first, and the function in which a script trains
	// elastically.
	Name, Rendezvous, Entry string
	// AbandonsForming states that a process can give up a ring that breaks while it forms,
	// and ask for its next place. If a member dies then, the ring is broken at once.
	// Without AbandonsForming, a connecting process can only be killed, so another one
	// replaces the dead member while that is possible; see replace.
	AbandonsForming bool
	// LocalGaps states that a ring may use any of a host's slots. Local ranks are then the
	// slots' numbers, and have gaps while a slot is started again. Without LocalGaps, slots
	// with higher numbers wait for that slot.
	LocalGaps bool
}

// Options configure the machine. A zero is kept in options that users set. In all other
// durations, it selects the default (see setDefaults).
type Options struct {
	NP    int // processes to wait for before the first ring
	MinNP int // fewest processes of a later ring
	MaxNP int // most processes of a ring; 0 is no limit
	// Replica is how many processes share one copy of the training state. A ring has
	// whole replicas only. More than 1 needs Framework.LocalGaps.
	Replica int

	Framework Framework

	// Set by users.
	ElasticTimeout time.Duration // longest wait for NP or MinNP
	Debounce       time.Duration // wait for more newcomers
	FinishTimeout  time.Duration // wait for the others after the first success

	StageTimeout   time.Duration // longest start of a newcomer
	FormTimeout    time.Duration // longest forming of a ring
	BarrierTimeout time.Duration // longest wait for a member after the first one has left the ring
	CommitTimeout  time.Duration // the same if members were notified of a change: they may be busy until their commit
	NotifyInterval time.Duration // between two notices
	LeaveGrace     time.Duration // wait for newcomers if every host is leaving
	SyncGrace      time.Duration // age at which a ring counts as synced without other evidence; see Machine.syncGrace

	ResetLimit   int // most rings after the first; 0 is no limit
	SlotRestarts int // restarts of a slot before its host is given back
	OnRingLost   OnRingLost
	// Restarts states, before any SlotArrived.Restarts does, that no process can change its
	// ring.
	Restarts bool
	// Spares keeps a spare process for each member of the current ring, for the next
	// failure, if processes can't change their ring.
	Spares bool
	// SpareHosts is the number of hosts that wait outside the ring, ready to replace a lost
	// one; see spare.go. It has no effect without Framework.LocalGaps, or if processes can't
	// change their ring.
	SpareHosts int

	// Floor is the highest generation that may be in use already, as far as the leader
	// knows. New rings have higher ones.
	Floor uint64
}

// stallGrace replaces BarrierTimeout for a stalled ring, once a member that has the state
// has left it. It is short, because members that do not hang leave as soon as the
// connections are cut.
const stallGrace = 5 * time.Second

// IdleTime is how long a process in a broken ring must be idle before it counts as hung.
// Processes that recover leave the ring much sooner.
const IdleTime = 2 * time.Second

// abandonGrace is how long a process may take to give up a ring that broke while forming;
// see Framework.AbandonsForming.
const abandonGrace = 10 * time.Second

// forgive is the time after which one failure of a slot no longer counts, so that one
// failure a day does not end a job that trains for weeks.
const forgive = 10 * time.Minute

// Forgive returns how many of a slot's failures still count, given the time since
// the last one.
func Forgive(failures int, since time.Duration) int {
	return max(0, failures-int(max(0, since)/forgive))
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.StageTimeout, 10*time.Minute)
	def(&o.FormTimeout, time.Minute)
	def(&o.BarrierTimeout, time.Minute)
	def(&o.CommitTimeout, 10*time.Minute)
	def(&o.NotifyInterval, 500*time.Millisecond)
	def(&o.LeaveGrace, 5*time.Second)
	def(&o.SyncGrace, 30*time.Second)
	if !o.Framework.LocalGaps {
		o.SpareHosts = 0
	}
	o.Replica = max(o.Replica, 1)
	o.MinNP = multiple(max(o.MinNP, 1), o.Replica)
	o.NP = multiple(max(o.NP, o.MinNP), o.Replica)
	if o.MaxNP > 0 {
		o.MaxNP = max(o.MaxNP/o.Replica, 1) * o.Replica
		o.NP = min(o.NP, o.MaxNP)
	}
}
