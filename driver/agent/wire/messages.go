// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

const (
	// HeartbeatInterval is how often a leader sends something in each session.
	HeartbeatInterval = time.Second
	// HeartbeatTimeout is how long a host waits for a message of the leader, or for a
	// connection to it.
	HeartbeatTimeout = 5 * time.Second
)

// ToLeader is one message from a host, with exactly one field set.
type ToLeader struct {
	Register   *Register               `json:"register,omitempty"`
	Leaving    *Leaving                `json:"leaving,omitempty"`
	Arrived    *elastic.SlotArrived    `json:"arrived,omitempty"`
	Waiting    *elastic.SlotWaiting    `json:"waiting,omitempty"`
	Forming    *Forming                `json:"forming,omitempty"`
	Connected  *Connected              `json:"connected,omitempty"`
	Up         *elastic.SlotUp         `json:"up,omitempty"`
	Ends       *Ends                   `json:"ends,omitempty"`
	Notifiable *elastic.SlotNotifiable `json:"notifiable,omitempty"`
	Idle       *elastic.SlotIdle       `json:"idle,omitempty"`
	Watched    *Watched                `json:"watched,omitempty"`
	Inspected  *Inspected              `json:"inspected,omitempty"`
	Slow       *Slow                   `json:"slow,omitempty"`
	Exited     *Exited                 `json:"exited,omitempty"`
	Puts       *RingPuts               `json:"puts,omitempty"`
	Progress   *Progress               `json:"progress,omitempty"`
}

// Register begins a session, with the whole state of the host.
type Register struct {
	Info    elastic.HostInfo `json:"info"`
	AllocID string           `json:"alloc_id"`
	// Framework is the host's training framework, or empty for an older driver.
	Framework string `json:"framework,omitempty"`
	// Addr is the address that the leader probes when the session has ended, to find out
	// whether the host is alive.
	Addr string `json:"addr"`
	// Keys are the host's values in the exchange of Info.Ring.
	Keys Snapshot `json:"keys"`
	// Status is the newest status of the job that the host has seen.
	Status *Status `json:"status,omitempty"`
	// KeepsRanks states that the host understands Status.RanksKept.
	KeepsRanks bool `json:"keeps_ranks,omitempty"`
	// Inspects states that the host answers an Inspect.
	Inspects bool `json:"inspects,omitempty"`
	// Noticed is the newest timestamp of a notice that the host knows of.
	Noticed int64 `json:"noticed,omitempty"`
}

// Leaving reports that the host's task is being stopped.
type Leaving struct {
	// Within is the time in seconds until the host stops its processes. It is 0 if the
	// host's version does not report it.
	Within float64 `json:"within,omitempty"`
}

// Exited reports the end of a process.
type Exited struct {
	elastic.SlotExited
	// Ring is the host's current ring. Withdrawn are the process's values in the ring's
	// exchange that no process on its host has read.
	Ring      RingID `json:"ring"`
	Withdrawn []Put  `json:"withdrawn,omitempty"`
}

// RingID identifies a ring.
type RingID struct {
	Generation uint64 `json:"generation"`
	Term       uint64 `json:"term"`
}

// IDOf returns the ID of a ring, or zero for nil.
func IDOf(r *elastic.Ring) RingID {
	if r == nil {
		return RingID{}
	}
	return RingID{r.Generation, r.Term}
}

// CloneRing returns a copy of a ring. Hosts and leader change their rings when a process is
// replaced while a ring forms. Within one process, messages are passed by reference, so a
// ring in a message must be a copy.
func CloneRing(r *elastic.Ring) *elastic.Ring {
	if r == nil {
		return nil
	}
	c := *r
	c.Members = slices.Clone(r.Members)
	return &c
}

// RingPuts holds the values that a host sends so that the processes of a ring can connect.
type RingPuts struct {
	Ring RingID `json:"ring"`
	Puts []Put  `json:"puts"`
}

// ToAgent is one message from the leader, with one field set, or none in a heartbeat.
type ToAgent struct {
	Start   *elastic.Start       `json:"start,omitempty"`
	Stop    *elastic.Stop        `json:"stop,omitempty"`
	Form    *elastic.Ring        `json:"form,omitempty"`
	Notify  *Notify              `json:"notify,omitempty"`
	Break   *elastic.Break       `json:"break,omitempty"`
	Watch   *Watch               `json:"watch,omitempty"`
	Inspect *Inspect             `json:"inspect,omitempty"`
	Look    *Look                `json:"look,omitempty"`
	Attest  *Attest              `json:"attest,omitempty"`
	Failed  *elastic.Failed      `json:"failed,omitempty"`
	Synced  *elastic.Synced      `json:"synced,omitempty"`
	Release *elastic.ReleaseHost `json:"release,omitempty"`
	End     *elastic.End         `json:"end,omitempty"`
	Event   *elastic.TaskEvent   `json:"event,omitempty"`
	Fill    *RingFill            `json:"fill,omitempty"`
	Status  *Status              `json:"status,omitempty"`
}

// RingFill holds values that the leader passes on so that the processes of a ring can
// connect.
type RingFill struct {
	Ring RingID `json:"ring"`
	Fill Fill   `json:"fill"`
}
