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
	// HeartbeatTimeout is how long a host waits for a message of the leader, and
	// for a connection to it.
	HeartbeatTimeout = 5 * time.Second
)

// ToLeader is one message of a host; one field is set.
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
	Exited     *Exited                 `json:"exited,omitempty"`
	Puts       *RingPuts               `json:"puts,omitempty"`
	Progress   *Progress               `json:"progress,omitempty"`
}

// Register begins a session: all that the host knows.
type Register struct {
	Info    elastic.HostInfo `json:"info"`
	AllocID string           `json:"alloc_id"`
	// Framework is the host's training framework, empty where it is of an older driver.
	Framework string `json:"framework,omitempty"`
	// Addr is where the leader probes whether the host lives when its session has
	// ended.
	Addr string `json:"addr"`
	// Keys are the host's values in the exchange of Info.Ring.
	Keys Snapshot `json:"keys"`
	// Status is the newest status the host has seen of the job.
	Status *Status `json:"status,omitempty"`
	// Noticed is the newest timestamp of a notice that the host knows of.
	Noticed int64 `json:"noticed,omitempty"`
}

// Leaving reports that the host's task is being stopped.
type Leaving struct {
	// Within is the time in seconds until the host stops its processes, 0 where an
	// older host does not report it.
	Within float64 `json:"within,omitempty"`
}

// Exited is the end of a process.
type Exited struct {
	elastic.SlotExited
	// Ring is the ring in whose exchange it was, and Withdrawn its values there
	// that no one on its host has read.
	Ring      RingID `json:"ring"`
	Withdrawn []Put  `json:"withdrawn,omitempty"`
}

// RingID names a ring.
type RingID struct {
	Generation uint64 `json:"generation"`
	Term       uint64 `json:"term"`
}

// IDOf returns the ID of a ring, zero for none.
func IDOf(r *elastic.Ring) RingID {
	if r == nil {
		return RingID{}
	}
	return RingID{r.Generation, r.Term}
}

// CloneRing returns a ring to be kept. Within one process, messages are handed
// over as they are, and hosts and leader change their rings: the process of a
// slot may be replaced while a ring forms.
func CloneRing(r *elastic.Ring) *elastic.Ring {
	if r == nil {
		return nil
	}
	c := *r
	c.Members = slices.Clone(r.Members)
	return &c
}

// RingPuts are values of a ring's exchange for other hosts.
type RingPuts struct {
	Ring RingID `json:"ring"`
	Puts []Put  `json:"puts"`
}

// ToAgent is one message of the leader; one field is set, or none to show that
// the leader is there.
type ToAgent struct {
	Start   *elastic.Start       `json:"start,omitempty"`
	Stop    *elastic.Stop        `json:"stop,omitempty"`
	Form    *elastic.Ring        `json:"form,omitempty"`
	Notify  *Notify              `json:"notify,omitempty"`
	Break   *elastic.Break       `json:"break,omitempty"`
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

// RingFill gives out values of a ring's exchange.
type RingFill struct {
	Ring RingID `json:"ring"`
	Fill Fill   `json:"fill"`
}
