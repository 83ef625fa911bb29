// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
)

// forms ends the ring with a notice and forms the next one, whose members do not connect.
func (l *ledBy) forms() {
	l.t.Helper()
	last := l.machine.Ring()
	for _, m := range last.Members {
		l.waits(m.Proc, last.Generation)
	}
	for end := time.Now().Add(time.Minute); l.machine.Ring() == nil || l.machine.Ring().Generation == last.Generation; {
		must.True(l.t, time.Now().Before(end))
		l.step(l.t.Context(), elastic.Tick{})
	}
	must.True(l.t, l.machine.Forming())
	l.sent()
}

func (l *ledBy) waits(p elastic.Proc, generation uint64) {
	l.receive(l.t.Context(), p.Slot.Host, &wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: p, Generation: generation}})
}

// listens reports that a member has not formed its group yet.
func (l *ledBy) listens(rank int, at ...netip.AddrPort) {
	p := l.machine.Ring().Members[rank].Proc
	l.receive(l.t.Context(), p.Slot.Host, &wire.ToLeader{Forming: &wire.Forming{Proc: p, Ring: l.ring, Round: 1, Listening: at}})
}

// formFor simulates the leader's clock for d, and answers each look for the hosts with the
// result of sees; nil means no answer. It ends early if the ring does.
func (l *ledBy) formFor(d time.Duration, sees func(look int, id elastic.HostID) *wire.Ends) (f found) {
	l.t.Helper()
	generation := l.ring.Generation
	for begin, later := time.Now(), time.Duration(0); later <= d && l.machine.Forming() && l.ring.Generation == generation; later += secondLook / 2 {
		l.lookForming(begin.Add(later))
		l.releaseAfterLook(l.t.Context(), begin.Add(later))
		for id, messages := range l.sent() {
			for _, m := range messages {
				switch {
				case m.Look != nil:
					f.looks++
					if e := sees(-m.Look.Number, id); e != nil {
						e.Ring, e.Round, e.Number = m.Look.Ring, m.Look.Round, m.Look.Number
						l.receive(l.t.Context(), id, &wire.ToLeader{Ends: e})
					}
				case m.Attest != nil:
					f.strangers = append(f.strangers, m.Attest.Strangers...)
				}
			}
		}
	}
	for _, messages := range l.sent() {
		for _, m := range messages {
			if m.Attest != nil {
				f.strangers = append(f.strangers, m.Attest.Strangers...)
			}
		}
	}
	return f
}

// taken has an intruder in a member's place; the member's own connection was closed.
var taken = map[elastic.HostID][]attest.End{"a": {stranger}}

// The stranger is reported although the other members only wait for the one that it replaced.
func TestAStrangerThatKeepsARingFromFormingIsNamed(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.forms()
	l.listens(0, listenA)
	generation := l.ring.Generation
	f := l.formFor(time.Minute, saw(taken))
	must.True(t, slices.Contains(f.strangers, stranger))
	must.Eq(t, 4, f.looks, must.Sprint("two of each host"))
	must.False(t, l.machine.Forming())
	last := l.machine.Ring()
	for _, m := range last.Members {
		l.waits(m.Proc, last.Generation)
	}
	l.connect()
	must.Eq(t, generation+1, l.ring.Generation)
}

// The replaced member gives up before the other has reported where it listens.
func TestAMemberThatGivesUpDoesNotHideTheStranger(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.forms()
	l.waits(l.machine.Ring().Members[1].Proc, l.ring.Generation)
	must.True(t, l.machine.Forming())
	must.Zero(t, len(l.formFor(formingLook/2, saw(taken)).strangers))
	l.listens(0, listenA)
	must.True(t, slices.Contains(l.formFor(time.Minute, saw(taken)).strangers, stranger))
	must.SliceEmpty(t, l.gaveUp.waiting)
}

// If a ring does not form for another reason, it ends a moment after the first member gave up. It
// ends at once if no member is left or one is lost.
func TestAMemberThatGivesUpEndsTheRing(t *testing.T) {
	for name, c := range map[string]struct {
		then func(l *ledBy)
		sees func(int, elastic.HostID) *wire.Ends
		wait time.Duration // at most
	}{
		"no stranger":      {func(l *ledBy) { l.listens(0, listenA) }, saw(honest), 2*formingLook + 2*secondLook},
		"nothing reported": {func(*ledBy) {}, saw(honest), 2*formingLook + 2*secondLook},
		"no answer":        {func(l *ledBy) { l.listens(0, listenA) }, func(int, elastic.HostID) *wire.Ends { return nil }, lookTimeout},
		"a host that can't look": {func(l *ledBy) { l.listens(0, listenA) }, func(_ int, id elastic.HostID) *wire.Ends {
			return &wire.Ends{Ends: taken[id], Unknown: "denied"}
		}, 2*formingLook + 2*secondLook},
		"all give up": {func(l *ledBy) { l.waits(l.machine.Ring().Members[0].Proc, l.ring.Generation) }, saw(honest), 0},
		"one is lost": {func(l *ledBy) {
			l.receive(l.t.Context(), "a", &wire.ToLeader{Exited: &wire.Exited{SlotExited: elastic.SlotExited{
				Proc: l.machine.Ring().Members[0].Proc, Visible: true}}})
		}, saw(honest), 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := lead(t, config.Config{}, "a", "b")
			l.forms()
			generation := l.ring.Generation
			l.waits(l.machine.Ring().Members[1].Proc, generation)
			c.then(l)
			must.Zero(t, len(l.formFor(c.wait+secondLook, c.sees).strangers))
			must.True(t, l.ring.Generation > generation || !l.machine.Forming(), must.Sprint("the ring still forms"))
			must.SliceEmpty(t, l.gaveUp.waiting)
		})
	}
}

// No look can succeed if the agent of a member is too old to answer, or if the ring's time to
// form ends before the answer.
func TestAMemberThatGivesUpIsNotKeptBackInVain(t *testing.T) {
	for name, prepare := range map[string]func(*ledBy) time.Time{
		"an old agent": func(l *ledBy) time.Time { l.mute["a"] = true; return time.Now() },
		"no time left": func(l *ledBy) time.Time { return l.machine.FormingEnds().Add(-lookTimeout / 2) },
	} {
		t.Run(name, func(t *testing.T) {
			l := lead(t, config.Config{}, "a", "b")
			l.forms()
			w := elastic.SlotWaiting{Proc: l.machine.Ring().Members[1].Proc, Generation: l.ring.Generation}
			must.False(t, l.postpone(w, prepare(l)))
			must.SliceEmpty(t, l.gaveUp.waiting)
		})
	}
}

// A listener has accepted a connection that no member opened, and a member has opened one to it
// that it has not accepted. They may be the same connection, with its address translated on the
// way.
func TestTranslatedAddressesOfMembersThatConnectAreNoStrangers(t *testing.T) {
	from := func(s string) attest.End { return attest.End{Local: listenA, Remote: netip.MustParseAddrPort(s)} }
	second := attest.End{Local: netip.MustParseAddrPort("10.0.0.3:40000"), Remote: listenA}
	for name, ends := range map[string]map[elastic.HostID][]attest.End{
		"one is accepted yet": {"a": {from("192.0.2.1:1")}, "b": {connects}, "c": {second}},
		"one hangs since":     {"a": {from("192.0.2.1:1"), from("192.0.2.1:2")}, "b": {connects}},
	} {
		t.Run(name, func(t *testing.T) {
			l := lead(t, config.Config{}, "a", "b", "c")
			l.forms()
			l.listens(0, listenA)
			must.SliceEmpty(t, l.formFor(10*time.Second, saw(ends)).strangers)
			must.True(t, l.machine.Forming())
			must.True(t, slices.Contains(l.formFor(time.Minute, saw(taken)).strangers, stranger), must.Sprint("it is named once nothing is pending"))
		})
	}
}

// A connection whose one end is established and whose other end is not accepted yet belongs
// to a slow member.
func TestASlowMemberIsNoStranger(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.forms()
	l.listens(0, listenA)
	f := l.formFor(10*time.Second, saw(map[elastic.HostID][]attest.End{"b": {connects}}))
	must.Zero(t, len(f.strangers))
	must.True(t, l.machine.Forming())
	must.Between(t, 10, f.looks, 30)
}

func TestReportsOfOtherFormingRingsAreIgnored(t *testing.T) {
	l := lead(t, config.Config{}, "a", "b")
	l.forms()
	p := l.machine.Ring().Members[0].Proc
	other, process := l.ring, p
	other.Generation++
	process.Incarnation++
	for _, m := range []*wire.Forming{
		{Proc: p, Ring: other, Round: 1, Listening: []netip.AddrPort{listenA}},
		{Proc: process, Ring: l.ring, Round: 1, Listening: []netip.AddrPort{listenA}},
		{Proc: p, Ring: l.ring, Round: 1, Listening: make([]netip.AddrPort, wire.MaxListening+1)},
		{Proc: p, Ring: l.ring, Listening: []netip.AddrPort{listenA}},
	} {
		l.receive(t.Context(), "a", &wire.ToLeader{Forming: m})
		must.Nil(t, l.formation)
	}
}

// If a member that waits exits, that is no failure in training. If the member retires, its exit
// does not complete the job either.
func TestAMemberThatGivesUpAndEndsIsNoMember(t *testing.T) {
	for name, retiring := range map[string]bool{"gives up": false, "retires": true} {
		t.Run(name, func(t *testing.T) {
			l := lead(t, config.Config{}, "a", "b", "c")
			l.forms()
			last := l.machine.Ring().Members[2].Proc
			l.waits(last, l.ring.Generation)
			must.Len(t, 1, l.gaveUp.waiting)
			if retiring {
				l.receive(t.Context(), last.Slot.Host, &wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: last, Generation: l.ring.Generation, Retiring: true}})
			}
			l.receive(t.Context(), last.Slot.Host, &wire.ToLeader{Exited: &wire.Exited{SlotExited: elastic.SlotExited{Proc: last, Success: true}}})
			must.SliceEmpty(t, l.gaveUp.waiting)
			must.False(t, l.machine.Ending())
			must.Nil(t, l.ended)
		})
	}
}
