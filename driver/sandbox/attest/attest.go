// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package attest decides whether a ring's connections are between its members alone. It
// does no I/O.
//
//	   slot of host a                          slot of host b
//	listens at L ── accepted (L, P) ──────── (P, L) connected
//	             └─ accepted (L, X) ──────── ?  no host reports (X, L): a stranger
//
// Each host of a ring reports the connections of its slots that have one end at a listening
// address of the ring. A connection between two members is reported from both ends. An end
// without a counterpart belongs to a stranger's connection.
//
// Address translation between hosts also leaves ends without counterparts, but two for each
// connection: the listening slot reports a translated remote address, and the connecting
// slot reports its own address. A stranger's connection leaves only one. So if a listening
// address has as many unmatched accepted ends as unmatched connected ends, Judge counts
// these ends as translated connections, not as strangers.
package attest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// MaxEnds is the largest number of connection ends that one host may report.
const MaxEnds = 1 << 18

// End is one end of an established TCP connection.
type End struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
}

// Other returns the connection as its other end sees it.
func (e End) Other() End { return End{e.Remote, e.Local} }

func compareEnds(a, b End) int {
	return cmp.Or(a.Local.Compare(b.Local), a.Remote.Compare(b.Remote))
}

// Check returns an error for a report that no host would make.
func Check(ends []End) error {
	if len(ends) > MaxEnds {
		return fmt.Errorf("%d ends of connections, the most is %d", len(ends), MaxEnds)
	}
	for _, e := range ends {
		if !e.Local.IsValid() || !e.Remote.IsValid() {
			return fmt.Errorf("an end from %q to %q is no connection", e.Local, e.Remote)
		}
	}
	return nil
}

// Addresses is a set of listening addresses.
type Addresses map[netip.AddrPort]bool

// Add adds an address in the form in which the kernel lists connections. It ignores
// addresses where no connection can end: invalid ones, the unspecified 0.0.0.0 and ::, and
// any address with port 0.
func (a Addresses) Add(p netip.AddrPort) {
	if addr := p.Addr().Unmap().WithZone(""); addr.IsValid() && !addr.IsUnspecified() && p.Port() != 0 {
		a[netip.AddrPortFrom(addr, p.Port())] = true
	}
}

// Verdict is the result of comparing the reports of all hosts.
type Verdict struct {
	// Strangers lists the members' ends whose other end no member reports. It is sorted.
	Strangers []End
	// Translated is the number of connections that may be between members whose addresses
	// are translated on the way. Nothing more is known of them.
	Translated int
}

// Judge compares the ends that all hosts of a ring report. It ignores repetitions, and ends
// at addresses that are not listening addresses.
func Judge(listening Addresses, ends []End) Verdict {
	all := make(map[End]bool, len(ends))
	for _, e := range ends {
		all[e] = true
	}
	// sides holds the unmatched ends of one listening address: those of the listener, and
	// those of slots that have connected to it.
	type sides struct{ accepted, connected []End }
	unmatched := map[netip.AddrPort]*sides{}
	at := func(addr netip.AddrPort) *sides {
		if unmatched[addr] == nil {
			unmatched[addr] = &sides{}
		}
		return unmatched[addr]
	}
	for e := range all {
		switch {
		case all[e.Other()]:
		case listening[e.Local]:
			at(e.Local).accepted = append(at(e.Local).accepted, e)
		case listening[e.Remote]:
			at(e.Remote).connected = append(at(e.Remote).connected, e)
		}
	}
	var v Verdict
	for _, s := range unmatched {
		if len(s.accepted) == len(s.connected) {
			v.Translated += len(s.accepted)
			continue
		}
		v.Strangers = append(v.Strangers, slices.Concat(s.accepted, s.connected)...)
	}
	slices.SortFunc(v.Strangers, compareEnds)
	return v
}
