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
//	Host ── Forming (of a process that takes its time) ──> Leader, which looks in the meantime
//	     ── Connected (of each process, before Up) ──>
//	     <── Look: the listening addresses of all ── once all are connected
//	     ── Ends: what this host has there ──>          and judges
//	     <── Attest: the members alone, or the strangers ──

// Connected reports that a process has connected to the group of its ring, and where
// it listens for the others.
type Connected struct {
	Proc elastic.Proc `json:"proc"`
	Ring RingID       `json:"ring"`
	// Round counts the groups of one ring, from 1: newcomers that have received the
	// state while others trained form another group with these.
	Round int `json:"round"`
	// Known reports that Listening has all its addresses. Where it is false, the
	// process does not report any.
	Known     bool             `json:"known"`
	Listening []netip.AddrPort `json:"listening,omitempty"`
	// Attested reports that an earlier leader has attested this round.
	Attested bool `json:"attested,omitempty"`
}

// Forming reports where a process listens whose group has not formed yet. It comes again
// as long as that lasts.
type Forming struct {
	Proc      elastic.Proc     `json:"proc"`
	Ring      RingID           `json:"ring"`
	Round     int              `json:"round"`
	Listening []netip.AddrPort `json:"listening"`
}

// MaxListening is the most listening addresses that are taken of one process: it has
// two groups, those of a device mesh, and in Horovod six meshes of 10,000 ranks.
const MaxListening = 1 << 16

// Look asks the hosts of a ring for the connections of their processes.
type Look struct {
	Ring  RingID `json:"ring"`
	Round int    `json:"round"`
	// Number tells a later look at the same round from an earlier one. It is negative
	// while members still connect.
	Number int `json:"number"`
	// Listening has the addresses at which members listen.
	Listening []netip.AddrPort `json:"listening"`
}

// Ends answers a Look.
type Ends struct {
	Ring   RingID       `json:"ring"`
	Round  int          `json:"round"`
	Number int          `json:"number"`
	Ends   []attest.End `json:"ends,omitempty"`
	// Unknown states why the host can't tell; empty where it can.
	Unknown string `json:"unknown,omitempty"`
}

// Attest gives out the leader's verdict.
type Attest struct {
	Ring  RingID `json:"ring"`
	Round int    `json:"round"`
	// Strangers are ends of members' connections that no other member has, at most
	// MaxStrangers. The ring breaks. Where there are none, the ring may exchange the
	// training state.
	Strangers []attest.End `json:"strangers,omitempty"`
}

// MaxStrangers is the most connections of strangers that are named.
const MaxStrangers = 3
