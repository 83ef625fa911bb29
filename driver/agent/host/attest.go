// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// member returns the slot of a process in the current ring, or nil if it is not in it.
func (h *Host) member(p elastic.Proc, e Endpoint, gen uint64) *slot {
	s := h.find(p)
	if s == nil || s.endpoint != e || s.State != elastic.InRing || s.Generation != gen || h.ring == nil || h.ring.Generation != gen {
		return nil
	}
	return s
}

// forming handles a process that is still connecting to a group of its ring.
func (h *Host) forming(p elastic.Proc, e Endpoint, gen uint64, round int, listening []netip.AddrPort) {
	if h.member(p, e, gen) != nil {
		h.send(&wire.ToLeader{Forming: &wire.Forming{Proc: p, Ring: wire.IDOf(h.ring), Round: round, Listening: listening}})
	}
}

// formingReport is the interval of reports about a process that is still connecting.
// Processes with kolo.torch report at the same interval themselves.
const formingReport = 500 * time.Millisecond

// reportForming reports the listening addresses of processes that are still connecting to
// their ring, and reports them again when there are more. It applies to frameworks that
// know the addresses from the exchange.
func (h *Host) reportForming(now time.Time) {
	for local, s := range h.slots {
		if s.State != elastic.InRing || s.Up || s.Surrogate || now.Before(s.forming) {
			continue
		}
		s.forming = now.Add(formingReport)
		if addrs, gen := s.endpoint.Listening(); len(addrs) > s.listed && gen == s.Generation {
			s.listed = len(addrs)
			h.forming(h.proc(local), s.endpoint, gen, 1, addrs)
		}
	}
}

// connected handles a process that is connected to a group of its ring.
func (h *Host) connected(p elastic.Proc, e Endpoint, gen uint64, round int, listening []netip.AddrPort, known bool) {
	s := h.member(p, e, gen)
	if s == nil {
		return
	}
	s.connected = &wire.Connected{Proc: p, Ring: wire.IDOf(h.ring), Round: round, Known: known, Listening: listening}
	h.send(&wire.ToLeader{Connected: s.connected})
}

// listens reports the listening addresses of a process that is connected to its ring, if
// its framework knows them from the exchange.
func (h *Host) listens(s *slot, p elastic.Proc, id wire.RingID) {
	addrs, gen := s.endpoint.Listening()
	if s.connected != nil || len(addrs) == 0 || gen != id.Generation {
		return
	}
	s.connected = &wire.Connected{Proc: p, Ring: id, Round: 1, Known: true, Listening: addrs}
	h.send(&wire.ToLeader{Connected: s.connected})
}

// reportConnected reports to a new leader which processes are connected. The next
// reportForming reports the addresses of the others.
func (h *Host) reportConnected() {
	for _, s := range h.slots {
		s.listed = 0
		if s.State == elastic.InRing && s.connected != nil && s.connected.Ring == wire.IDOf(h.ring) {
			h.send(&wire.ToLeader{Connected: s.connected})
		}
	}
}

// look reports the connections of the host's processes that end at one of the ring's
// listening addresses.
func (h *Host) look(m wire.Look) {
	if m.Ring != wire.IDOf(h.ring) {
		return
	}
	listening := attest.Addresses{}
	for _, a := range m.Listening {
		listening.Add(a)
	}
	h.tasks.Go(func() {
		answer := &wire.Ends{Ring: m.Ring, Round: m.Round, Number: m.Number}
		sockets, err := h.peers.Connections(listening)
		if err != nil {
			answer.Unknown = err.Error()
		}
		for _, s := range sockets[:min(len(sockets), attest.MaxEnds)] {
			answer.Ends = append(answer.Ends, attest.End{Local: s.Local, Remote: s.Remote})
		}
		h.post(func() { h.send(&wire.ToLeader{Ends: answer}) })
	})
}

// attested handles the leader's verdict on a round.
func (h *Host) attested(m *wire.Attest) {
	if m.Ring != wire.IDOf(h.ring) {
		return
	}
	if len(m.Strangers) > 0 {
		h.reportStrangers(m.Ring.Generation, m.Strangers)
		return
	}
	for _, s := range h.slots {
		if c := s.connected; s.State == elastic.InRing && c != nil && c.Ring == m.Ring && c.Round <= m.Round && !c.Attested {
			done := *c // a leader in this process may hold the original
			done.Attested = true
			s.connected = &done
			s.endpoint.Attested(m.Ring.Generation, c.Round)
		}
	}
}

// reportStrangers reports the origin of the connections that broke a ring. It scans all
// processes of the machine, and the host does not wait for that.
func (h *Host) reportStrangers(generation uint64, strangers []attest.End) {
	events, peers := h.o.Events, h.peers
	h.tasks.Go(func() {
		var all []string
		for _, e := range strangers {
			who := peers.Describe(e.Remote, e.Local)
			if who == "" {
				who = "not a process of this machine that the agent can see"
			}
			all = append(all, fmt.Sprintf("%s is connected to %s of its process group and is none of its members (%s)", e.Remote, e.Local,
				plaintext.Line(who, plaintext.Limit)))
		}
		events.Emit(fmt.Sprintf("ring %d is broken: %s; the next ring forms", generation, strings.Join(all, ", ")))
	})
}
