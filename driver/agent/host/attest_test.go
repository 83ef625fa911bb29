// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// attestedEndpoint records the verdicts for its process.
type attestedEndpoint struct {
	endpoint
	rounds []int
}

func (e *attestedEndpoint) Attested(_ uint64, round int) { e.rounds = append(e.rounds, round) }

// inRing returns a host with one process in a ring, and the leader's end of its session.
func inRing(t *testing.T) (*Host, *attestedEndpoint, wire.LeaderEnd) {
	t.Helper()
	log, err := events.Open("", hclog.NewNullLogger())
	must.NoError(t, err)
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "a", Events: log, Logger: hclog.NewNullLogger()})
	up, down := wire.Pipe()
	h.session = up
	h.ring = &elastic.Ring{Generation: 3, Term: 2}
	e := &attestedEndpoint{}
	h.slots[0].endpoint = e
	h.slots[0].State, h.slots[0].Incarnation, h.slots[0].Generation = elastic.InRing, 1, 3
	return h, e, down
}

// formedExchange is the exchange of a ring that has formed.
type formedExchange struct{ exchange }

func (formedExchange) Up(int) bool { return true }

// The leader learns that a process was connected before it learns that the process left, even
// if the news of the exchange has not been handled yet. A new leader learns both.
func TestOneThatLeavesWasConnected(t *testing.T) {
	for _, formed := range []bool{false, true} {
		h, e, down := inRing(t)
		h.ring.Members = []elastic.Member{{Proc: h.proc(0)}}
		h.exchange = exchange{}
		if formed {
			h.exchange = formedExchange{}
		}
		h.waiting(h.proc(0), e, 3)
		if formed {
			m, err := down.Recv()
			must.NoError(t, err)
			must.Eq(t, &elastic.SlotUp{Proc: h.proc(0), Generation: 3}, m.Up)
		}
		m, err := down.Recv()
		must.NoError(t, err)
		must.Eq(t, &elastic.SlotWaiting{Proc: h.proc(0), Generation: 3}, m.Waiting)
		report := h.register().Info.Slots[0]
		must.Eq(t, elastic.Waiting, report.State)
		must.Eq(t, formed, report.Up)
	}
}

// A process learns the verdict on its group, and a new leader learns what was attested.
func TestAVerdictReachesTheProcess(t *testing.T) {
	h, e, down := inRing(t)
	at := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:3000")}
	h.connected(h.proc(0), e, 2, 1, at, true) // of an earlier ring
	h.connected(h.proc(0), e, 3, 1, at, true)
	m, err := down.Recv()
	must.NoError(t, err)
	must.Eq(t, wire.RingID{Generation: 3, Term: 2}, m.Connected.Ring)
	h.attested(&wire.Attest{Ring: wire.RingID{Generation: 2, Term: 2}, Round: 1})
	must.SliceEmpty(t, e.rounds)
	h.attested(&wire.Attest{Ring: m.Connected.Ring, Round: 1})
	h.attested(&wire.Attest{Ring: m.Connected.Ring, Round: 1})
	must.Eq(t, []int{1}, e.rounds)
	must.False(t, m.Connected.Attested, must.Sprint("the leader has the message"))

	h.reportConnected()
	m, err = down.Recv()
	must.NoError(t, err)
	must.True(t, m.Connected.Attested)

	h.connected(h.proc(0), e, 3, 2, at, true)
	h.attested(&wire.Attest{Ring: m.Connected.Ring, Round: 1})
	must.Eq(t, []int{1}, e.rounds)
	h.attested(&wire.Attest{Ring: m.Connected.Ring, Round: 2})
	must.Eq(t, []int{1, 2}, e.rounds)
}

// listeningEndpoint belongs to a process whose listening addresses are in the exchange.
type listeningEndpoint struct {
	endpoint
	at []netip.AddrPort
}

func (e *listeningEndpoint) Listening() ([]netip.AddrPort, uint64) { return e.at, 3 }

// The addresses of a process that is still connecting are reported once, again when there
// are more, and again to a new leader.
func TestWhereAProcessListensIsReportedOnce(t *testing.T) {
	h, _, _ := inRing(t)
	leader := &leaderEnd{}
	h.session = leader
	e := &listeningEndpoint{}
	h.slots[0].endpoint = e
	later := time.Now()
	reported := func() (n int) {
		for range 20 {
			later = later.Add(formingReport)
			h.reportForming(later)
		}
		n, leader.sent = len(leader.sent), nil
		return n
	}
	must.Zero(t, reported())
	e.at = append(e.at, netip.MustParseAddrPort("10.0.0.1:3000"))
	must.Eq(t, 1, reported())
	e.at = append(e.at, netip.MustParseAddrPort("10.0.0.1:3001"))
	must.Eq(t, 1, reported())
	must.Zero(t, reported())
	h.reportConnected()
	must.Eq(t, 1, reported())
}

// A host reports only its own processes' ends of connections. So no host confirms the other
// end of an intruder's connection.
func TestALookShowsOwnConnectionsOnly(t *testing.T) {
	h, _, down := inRing(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	must.NoError(t, err)
	defer func() { _ = listener.Close() }()
	at := listener.Addr().(*net.TCPAddr).AddrPort()
	member, err := new(net.Dialer).DialContext(t.Context(), "tcp4", at.String())
	must.NoError(t, err)
	defer func() { _ = member.Close() }()
	first, err := listener.Accept()
	must.NoError(t, err)
	defer func() { _ = first.Close() }()
	look := func() []attest.End {
		t.Helper()
		h.look(wire.Look{Ring: wire.IDOf(h.ring), Round: 1, Number: 1, Listening: []netip.AddrPort{at}})
		(<-h.todo)()
		m, err := down.Recv()
		must.NoError(t, err)
		must.Eq(t, "", m.Ends.Unknown)
		return m.Ends.Ends
	}
	listening := attest.Addresses{at: true}
	must.SliceLen(t, 2, look())
	must.SliceEmpty(t, attest.Judge(listening, look()).Strangers)

	intruder := intrudertest.Start(t, int(at.Port()), 65534, "hold1")
	must.Eq(t, "hold1 done", intruder.Result(t))
	second, err := listener.Accept()
	must.NoError(t, err)
	defer func() { _ = second.Close() }()
	strangers := attest.Judge(listening, look()).Strangers
	must.SliceLen(t, 1, strangers)
	must.Eq(t, second.RemoteAddr().String(), strangers[0].Remote.String())

	h.attested(&wire.Attest{Ring: wire.IDOf(h.ring), Round: 1, Strangers: strangers})
	text := firstEvent(t.Context(), h.o.Events)
	must.StrContains(t, text, "ring 3 is broken: "+second.RemoteAddr().String())
	must.StrContains(t, text, "user 65534, process ")
	must.True(t, strings.HasSuffix(text, "the next ring forms"), must.Sprint(text))
}

func firstEvent(ctx context.Context, log *events.Log) string {
	for ctx.Err() == nil {
		if all := log.Recent(); len(all) > 0 {
			return all[0].Message
		}
	}
	return ""
}
