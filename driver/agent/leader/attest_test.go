// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
)

// The addresses of a ring of two hosts.
var (
	listenA   = netip.MustParseAddrPort("10.0.0.1:3000")
	connects  = attest.End{Local: netip.MustParseAddrPort("10.0.0.2:40000"), Remote: listenA}
	stranger  = attest.End{Local: listenA, Remote: netip.MustParseAddrPort("10.0.0.1:55555")}
	honest    = map[elastic.HostID][]attest.End{"a": {connects.Other()}, "b": {connects}}
	intrusion = map[elastic.HostID][]attest.End{"a": {connects.Other(), stranger}, "b": {connects}}
)

// found counts the leader's messages about the connections of a ring.
type found struct {
	looks, attested, breaks int
	strangers               []attest.End
	events                  []string
}

// attests reports each member of the ring as connected, and answers each look for the
// hosts with the result of sees; nil means no answer.
func (l *ledBy) attests(known bool, sees func(look int, id elastic.HostID) *wire.Ends) found {
	l.t.Helper()
	l.sent()
	for i, m := range l.machine.Ring().Members {
		c := &wire.Connected{Proc: m.Proc, Ring: l.ring, Round: 1, Known: known || i == 0}
		if i == 0 {
			c.Listening = []netip.AddrPort{listenA}
		}
		l.receive(l.t.Context(), m.Proc.Slot.Host, &wire.ToLeader{Connected: c})
	}
	var f found
	for later := time.Now(); later.Before(time.Now().Add(lookTimeout + secondLook)); later = later.Add(secondLook) {
		for id, messages := range l.sent() {
			for _, m := range messages {
				switch {
				case m.Look != nil:
					f.looks++
					must.SliceLen(l.t, 1, m.Look.Listening)
					if e := sees(m.Look.Number, id); e != nil {
						e.Ring, e.Round, e.Number = m.Look.Ring, m.Look.Round, m.Look.Number
						l.receive(l.t.Context(), id, &wire.ToLeader{Ends: e})
					}
				case m.Attest != nil && m.Attest.Strangers == nil:
					f.attested++
				case m.Attest != nil:
					f.strangers = append(f.strangers, m.Attest.Strangers...)
				case m.Break != nil:
					f.breaks++
				case m.Event != nil:
					f.events = append(f.events, m.Event.Text)
				}
			}
		}
		l.lookAgain(later)
	}
	return f
}

func saw(ends map[elastic.HostID][]attest.End) func(int, elastic.HostID) *wire.Ends {
	return func(_ int, id elastic.HostID) *wire.Ends { return &wire.Ends{Ends: ends[id]} }
}

func TestARingOfMembersIsAttested(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	f := l.attests(true, saw(honest))
	must.Eq(t, fmt.Sprint(found{looks: 2, attested: 2}), fmt.Sprint(f))
	must.True(t, l.machine.Up())
}

// Each host learns of the unidentified connections, and the ring breaks, once.
func TestAStrangerBreaksTheRing(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	f := l.attests(true, saw(intrusion))
	must.Eq(t, fmt.Sprint(found{looks: 4, breaks: 2, strangers: []attest.End{stranger, stranger}}), fmt.Sprint(f))
	must.False(t, l.machine.Up())
	first := l.ring
	l.reform()
	must.Eq(t, first.Generation+1, l.ring.Generation)
	f = l.attests(true, saw(honest))
	must.Eq(t, 2, f.attested)
}

// Only a second look confirms a stranger, because a dying member also leaves connections
// with one end for a moment.
func TestAStrangerIsSeenTwice(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	f := l.attests(true, func(look int, id elastic.HostID) *wire.Ends {
		if look == 1 {
			return saw(intrusion)(look, id)
		}
		return saw(honest)(look, id)
	})
	must.Eq(t, fmt.Sprint(found{looks: 4, attested: 2}), fmt.Sprint(f))
}

// Processes that connected after the first look have replaced no member: all members were
// connected by then.
func TestTheSameStrangerIsSeenTwice(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	f := l.attests(true, func(look int, id elastic.HostID) *wire.Ends {
		ends := slices.Clone(honest[id])
		if id == "a" {
			ends = append(ends, attest.End{Local: listenA, Remote: netip.AddrPortFrom(listenA.Addr(), uint16(50000+look))})
		}
		return &wire.Ends{Ends: ends}
	})
	must.Eq(t, fmt.Sprint(found{looks: 4, attested: 2}), fmt.Sprint(f))
}

// If all members listen at every address of their machines, no connection is checked.
func TestListenersWithoutAddressAreUnknown(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.sent()
	for _, m := range l.machine.Ring().Members {
		l.receive(t.Context(), m.Proc.Slot.Host, &wire.ToLeader{Connected: &wire.Connected{
			Proc: m.Proc, Ring: l.ring, Round: 1, Known: true, Listening: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:3000")}}})
	}
	must.True(t, l.attestation.done)
	must.True(t, l.toldUnattested)
}

// A look without a result breaks no ring, and is reported once.
func TestWhatIsUnknownIsNoStranger(t *testing.T) {
	translated := map[elastic.HostID][]attest.End{"a": {{Local: listenA, Remote: netip.MustParseAddrPort("192.0.2.1:1")}}, "b": {connects}}
	for name, c := range map[string]struct {
		known bool
		sees  func(int, elastic.HostID) *wire.Ends
		why   string
	}{
		"a process that does not report": {false, saw(intrusion), "the processes of ranks [1] do not report where they listen"},
		"a host that can't look": {true, func(_ int, id elastic.HostID) *wire.Ends {
			return &wire.Ends{Ends: intrusion[id], Unknown: map[elastic.HostID]string{"b": "denied\x1b"}[id]}
		}, "host b: denied"},
		"a host that does not answer": {true, func(_ int, id elastic.HostID) *wire.Ends {
			return map[elastic.HostID]*wire.Ends{"a": {Ends: intrusion["a"]}}[id]
		}, "has not reported its connections"},
		"a host that reports nonsense": {true, func(int, elastic.HostID) *wire.Ends { return &wire.Ends{Ends: make([]attest.End, 1)} }, "is no connection"},
		"translated addresses":         {true, saw(translated), "addresses of 1 connections are translated"},
	} {
		t.Run(name, func(t *testing.T) {
			l := lead(t, config.Config{}, "a", "b")
			f := l.attests(c.known, c.sees)
			must.Eq(t, 2, f.attested)
			must.Eq(t, 0, f.breaks)
			must.SliceLen(t, 2, f.events, must.Sprint("one to each host"))
			must.StrContains(t, f.events[0], c.why)
			must.StrNotContains(t, f.events[0], "\x1b")
			l.reform()
			f = l.attests(c.known, c.sees)
			must.Eq(t, 2, f.attested)
			must.SliceEmpty(t, f.events, must.Sprint(strings.Join(f.events, "\n")))
		})
	}
}

// connects reports the first members of the ring as connected, and returns how often the
// leader then attests the ring.
func (l *ledBy) connects(members, round int) int {
	for _, m := range l.machine.Ring().Members[:members] {
		l.receive(l.t.Context(), m.Proc.Slot.Host, &wire.ToLeader{Connected: &wire.Connected{
			Proc: m.Proc, Ring: l.ring, Round: round, Known: true, Listening: []netip.AddrPort{listenA}}})
	}
	return l.verdicts()
}

func (l *ledBy) verdicts() (n int) {
	for _, m := range slices.Concat(slices.Collect(maps.Values(l.sent()))...) {
		if m.Attest != nil {
			n++
		}
	}
	return n
}

// While a job's clients are updated, its rings wait once for the agent of an earlier
// release, for a bounded time.
func TestAnAgentThatDoesNotReportIsAwaitedOnce(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.sent()
	must.Zero(t, l.connects(1, 1))
	l.lookAgain(time.Now().Add(lookTimeout - time.Second))
	must.Zero(t, l.verdicts())
	l.lookAgain(time.Now().Add(lookTimeout))
	must.Eq(t, 2, l.verdicts())
	must.Eq(t, 2, l.connects(1, 2), must.Sprint("the group of this ring in which newcomers are members"))
	l.reform()
	must.Eq(t, 2, l.connects(1, 1))
	l.connects(2, 1) // it does report, late
	l.reform()
	must.Zero(t, l.connects(2, 1))
	must.Eq(t, 1, l.attestation.number)
}

func TestALaterRoundIsNotAwaitedForGood(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.sent()
	must.Zero(t, l.connects(1, 2))
	l.lookAgain(time.Now().Add(switchTimeout - time.Second))
	must.Zero(t, l.verdicts())
	l.lookAgain(time.Now().Add(switchTimeout))
	must.Eq(t, 2, l.verdicts())
}

// A host that has yet to register with a new leader does not count as one that does not
// report.
func TestAHostThatIsAwayIsAwaited(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.sent()
	must.Zero(t, l.connects(1, 1))
	session := l.hosts["b"].session
	l.hosts["b"].session = nil
	later := time.Now().Add(time.Hour)
	l.lookAgain(later)
	l.hosts["b"].session = session
	l.lookAgain(later.Add(lookTimeout - time.Second))
	must.Zero(t, l.verdicts())
	l.lookAgain(later.Add(lookTimeout))
	must.Eq(t, 2, l.verdicts())
}

// A round that an earlier leader has attested is not checked again: processes that connect
// to a listener later have replaced no member.
func TestAnEarlierLeadersVerdictStands(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.sent()
	for i, m := range l.machine.Ring().Members {
		l.receive(t.Context(), m.Proc.Slot.Host, &wire.ToLeader{Connected: &wire.Connected{
			Proc: m.Proc, Ring: l.ring, Round: 1, Known: true, Listening: []netip.AddrPort{listenA}, Attested: i == 1}})
	}
	for _, messages := range l.sent() {
		for _, m := range messages {
			must.Nil(t, m.Look)
		}
	}
	must.True(t, l.attestation.done)
}

// Reports of other rings, and those that are too large, change nothing.
func TestReportsOfOtherRingsAreIgnored(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	p := l.machine.Ring().Members[0].Proc
	other := l.ring
	other.Generation++
	for _, c := range []*wire.Connected{
		{Proc: p, Ring: other, Round: 1, Known: true},
		{Proc: p, Ring: l.ring, Round: 0, Known: true},
		{Proc: p, Ring: l.ring, Round: 1, Known: true, Listening: make([]netip.AddrPort, wire.MaxListening+1)},
	} {
		l.receive(t.Context(), "a", &wire.ToLeader{Connected: c})
		must.Nil(t, l.attestation)
	}
	l.receive(t.Context(), "a", &wire.ToLeader{Ends: &wire.Ends{Ring: l.ring, Round: 1, Number: 1, Ends: intrusion["a"]}})
	must.True(t, l.machine.Up())
}
