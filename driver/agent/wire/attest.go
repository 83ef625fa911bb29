// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"net/netip"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
)

// How the connections of a ring are attested:
//
//	Host ── Forming (of a process that is still connecting) ──> Leader, which may look already
//	     ── Connected (of each process, before Up) ──>
//	     <── Look: the listening addresses of all ── once all are connected
//	     ── Ends: this host's connections with them ──>  and judges
//	     <── Attest: members only, or the strangers ──

// Connected reports that a process has connected to the group of its ring. It also contains
// the addresses at which the process listens for the other members.
type Connected struct {
	Proc elastic.Proc `json:"proc"`
	Ring RingID       `json:"ring"`
	// Round counts the groups of one ring, from 1. Newcomers that received the state while the
	// other members trained form another group together with those members.
	Round int `json:"round"`
	// Known states that Listening has all of the process's addresses. If false, the process does
	// not report any.
	Known     bool             `json:"known"`
	Listening []netip.AddrPort `json:"listening,omitempty"`
	// Attested states that an earlier leader has attested this round.
	Attested bool `json:"attested,omitempty"`
}

// Forming reports the addresses at which a process listens while its group has not formed
// yet. It is repeated until the group has formed.
type Forming struct {
	Proc      elastic.Proc     `json:"proc"`
	Ring      RingID           `json:"ring"`
	Round     int              `json:"round"`
	Listening []netip.AddrPort `json:"listening"`
}

// MaxListening bounds the listening addresses that one process may report. With PyTorch, a
// process has two groups and the groups of a device mesh; with Horovod, it has six meshes
// of up to 10,000 ranks.
const MaxListening = 1 << 16

// Look asks the hosts of a ring for the connections of their processes.
type Look struct {
	Ring  RingID `json:"ring"`
	Round int    `json:"round"`
	// Number distinguishes the looks at one round. It is negative while members are
	// still connecting.
	Number int `json:"number"`
	// Listening holds the addresses at which members listen.
	Listening []netip.AddrPort `json:"listening"`
}

// Ends is a host's answer to a Look: the ends of connections that its processes have.
type Ends struct {
	Ring   RingID       `json:"ring"`
	Round  int          `json:"round"`
	Number int          `json:"number"`
	Ends   []attest.End `json:"ends,omitempty"`
	// Unknown states why the host does not know its connections; empty if it does.
	Unknown string `json:"unknown,omitempty"`
}

// Attest is the leader's verdict on the connections of one round: whether they are between
// members only.
type Attest struct {
	Ring  RingID `json:"ring"`
	Round int    `json:"round"`
	// Strangers are the members' ends of connections whose other end no member has, at most
	// MaxStrangers. If there are any, the ring breaks; otherwise it may exchange the training
	// state.
	Strangers []attest.End `json:"strangers,omitempty"`
}

// MaxStrangers is the largest number of connections with strangers that an Attest lists.
const MaxStrangers = 3
