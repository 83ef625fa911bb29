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

// member returns the slot of a process in the present ring, nil where it is not in it.
func (h *Host) member(p elastic.Proc, e Endpoint, gen uint64) *slot {
	s := h.find(p)
	if s == nil || s.endpoint != e || s.State != elastic.InRing || s.Generation != gen || h.ring == nil || h.ring.Generation != gen {
		return nil
	}
	return s
}

// forming: the process takes its time to connect to a group of its ring.
func (h *Host) forming(p elastic.Proc, e Endpoint, gen uint64, round int, listening []netip.AddrPort) {
	if h.member(p, e, gen) != nil {
		h.send(&wire.ToLeader{Forming: &wire.Forming{Proc: p, Ring: wire.IDOf(h.ring), Round: round, Listening: listening}})
	}
}

// formingReport is how often a process that connects is reported. kolo.torch does so as
// often by itself.
const formingReport = 500 * time.Millisecond

// reportForming reports where processes listen that still connect to their ring, if
// their framework knows the addresses from the exchange, and again when there are more.
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

// connected: the process is connected to a group of its ring.
func (h *Host) connected(p elastic.Proc, e Endpoint, gen uint64, round int, listening []netip.AddrPort, known bool) {
	s := h.member(p, e, gen)
	if s == nil {
		return
	}
	s.connected = &wire.Connected{Proc: p, Ring: wire.IDOf(h.ring), Round: round, Known: known, Listening: listening}
	h.send(&wire.ToLeader{Connected: s.connected})
}

// listens reports where a process listens that is connected to its ring, if its
// framework knows the addresses from the exchange.
func (h *Host) listens(s *slot, p elastic.Proc, id wire.RingID) {
	addrs, gen := s.endpoint.Listening()
	if s.connected != nil || len(addrs) == 0 || gen != id.Generation {
		return
	}
	s.connected = &wire.Connected{Proc: p, Ring: id, Round: 1, Known: true, Listening: addrs}
	h.send(&wire.ToLeader{Connected: s.connected})
}

// reportConnected reports to a new leader which processes are connected. Where others
// listen it learns with the next reportForming.
func (h *Host) reportConnected() {
	for _, s := range h.slots {
		s.listed = 0
		if s.State == elastic.InRing && s.connected != nil && s.connected.Ring == wire.IDOf(h.ring) {
			h.send(&wire.ToLeader{Connected: s.connected})
		}
	}
}

// look reports the connections of the host's processes at the ring's listening
// addresses.
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

// attested takes in the leader's verdict on a round.
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
			done := *c // the leader of this process may have the other
			done.Attested = true
			s.connected = &done
			s.endpoint.Attested(m.Ring.Generation, c.Round)
		}
	}
}

// reportStrangers reports where the connections come from that broke a ring. That takes
// a look at all processes of the machine, for which the host does not wait.
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
