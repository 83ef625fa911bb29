// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import "time"

// OnRingLost selects what happens when no process that holds the training state
// is left. Processes that can't change their ring start again in any case.
type OnRingLost int

// The choices of OnRingLost.
const (
	// Fail ends the job with an error.
	Fail OnRingLost = iota
	// Restart starts all slots again; the script resumes from its own
	// checkpoint.
	Restart
)

// Framework is what the machine needs to know of the training framework.
type Framework struct {
	// Name, Rendezvous and Entry are its words in messages: its own name, what a
	// process reaches first, and the function in which a script trains elastically.
	Name, Rendezvous, Entry string
	// AbandonsForming states that a process that connects to a ring can give it up
	// and ask for its next place when the ring is broken. Else it can only be
	// killed. So where a member dies, such a ring is broken at once; otherwise
	// another process takes the member's place while that is possible; see replace.
	AbandonsForming bool
	// LocalGaps states that a ring may have any slots of a host. Local ranks are
	// then the slots' numbers, and have gaps while a slot is started again. Else the
	// slots above wait for it.
	LocalGaps bool
}

// Options configure the machine. Those that users set mean what they are, zero
// included; of the others, a duration of zero means its default (see setDefaults).
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
	BarrierTimeout time.Duration // longest wait for a member after the first one is out of the ring
	CommitTimeout  time.Duration // the same, where members were told of a change: they may be busy until their commit
	NotifyInterval time.Duration // between two notices
	LeaveGrace     time.Duration // wait for newcomers when every host is leaving
	SyncGrace      time.Duration // age at which a ring counts as synced without other evidence; see Machine.syncGrace

	ResetLimit   int // most rings after the first; 0 is no limit
	SlotRestarts int // restarts of a slot before its host is given back
	OnRingLost   OnRingLost
	// Restarts is known ahead of SlotArrived.Restarts: no process can change its ring.
	Restarts bool
	// Spares keeps processes for the present ring started beside it, for the next
	// failure, where processes can't change their ring.
	Spares bool

	// Floor is the highest generation that may have been used already, as far
	// as the leader knows; new rings are numbered above it.
	Floor uint64
}

// stallGrace replaces BarrierTimeout for a ring that stalled, once a member that
// holds the state is out of it: members that do not hang leave as soon as the
// connections are cut.
const stallGrace = 5 * time.Second

// IdleTime is how long a process has to do nothing in a ring that broke before it
// counts as one that hangs. Those that recover leave the ring much sooner.
const IdleTime = 2 * time.Second

// abandonGrace is how long a process may take to give up a ring that broke while
// it formed; see Framework.AbandonsForming.
const abandonGrace = 10 * time.Second

// forgive is the time after which one failure of a slot no longer counts, so
// that a fault a day does not end a job of weeks.
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
	o.Replica = max(o.Replica, 1)
	o.MinNP = multiple(max(o.MinNP, 1), o.Replica)
	o.NP = multiple(max(o.NP, o.MinNP), o.Replica)
	if o.MaxNP > 0 {
		o.MaxNP = max(o.MaxNP/o.Replica, 1) * o.Replica
		o.NP = min(o.NP, o.MaxNP)
	}
}
