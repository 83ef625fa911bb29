// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
)

// formingLook is the interval between looks at a group that does not form. Processes report
// their listening addresses more often.
const formingLook = time.Second

// formation is a round whose processes have not connected yet. An intruder may have taken
// the place of one: if two processes connect to the same member, Gloo closes the second
// connection.
type formation struct {
	look
	reported map[elastic.Proc][]netip.AddrPort // where processes listen
	clean    time.Time                         // start of the last look that found no intruder or had no result
}

// gaveUp holds the members that gave up connecting. The machine learns of them only after a
// look. It then breaks the ring, and the others close the connections that show the reason.
type gaveUp struct {
	waiting []elastic.SlotWaiting
	since   time.Time
}

// forming handles a report from a process whose group has not formed yet.
func (l *Leader) forming(m *wire.Forming) {
	if m.Ring != l.ring || m.Round < 1 || len(m.Listening) > wire.MaxListening {
		return
	}
	if a := l.attestation; a != nil && (a.round > m.Round || a.round == m.Round && (a.done || a.number > 0)) {
		return // the report is late
	}
	if mem := l.machine.Ring().Find(m.Proc.Slot); mem == nil || mem.Proc != m.Proc {
		return
	}
	l.formationOf(m.Round).reported[m.Proc] = m.Listening
}

// formationOf returns the formation of a round. It begins one if there is none.
func (l *Leader) formationOf(round int) *formation {
	if l.formation == nil || l.formation.round < round {
		l.formation = &formation{look: look{round: round}, reported: map[elastic.Proc][]netip.AddrPort{}}
	}
	return l.formation
}

// lookForming starts a look at a group that does not form, if one is due.
func (l *Leader) lookForming(now time.Time) {
	f := l.formation
	if f == nil {
		return
	}
	if !l.machine.Intact() {
		l.formation = nil // its ring has ended
		return
	}
	since := now.Sub(f.asked)
	switch {
	case f.answers != nil && since < lookTimeout:
	case since < formingLook: // also before a second look, because a lost FIN is sent again until then
	default:
		l.lookAtForming(f, now)
	}
}

// lookAtForming asks all hosts of the ring for their connections. While no process of the
// ring is known to listen, it asks no one, and the look counts as one that found no
// stranger.
func (l *Leader) lookAtForming(f *formation, now time.Time) {
	f.asked, f.answers, f.listening = now, nil, attest.Addresses{}
	for _, addrs := range f.reported {
		for _, a := range addrs {
			f.listening.Add(a)
		}
	}
	if a := l.attestation; a != nil && a.round == f.round { // attestation looks at the connected ones
		maps.Copy(f.listening, a.listening)
	}
	if len(f.listening) == 0 {
		f.clean = now
		return
	}
	l.ask(&f.look, -1)
}

// lookedForming handles a host's answer to a look at a group that does not form. It does
// not report a look without a result, because the group may still form, and is looked at
// then.
func (l *Leader) lookedForming(ctx context.Context, id elastic.HostID, m *wire.Ends) {
	f := l.formation
	if f == nil || !l.machine.Intact() {
		return
	}
	ends, unknown, all := l.answered(&f.look, id, m)
	if !all {
		return
	}
	f.answers = nil
	before := f.strangers
	f.strangers = slices.DeleteFunc(intruders(f.listening, ends), func(e attest.End) bool { return before != nil && !slices.Contains(before, e) })
	switch {
	case unknown != "", len(f.strangers) == 0:
		f.strangers, f.clean = nil, f.asked
	case before != nil:
		l.intruded(ctx, f.round, f.strangers)
	}
}

// intruders returns the accepted ends, at a listener of the ring, of connections that no
// member opened. It ignores an end that a member opened and no listener has accepted yet,
// because that member may just be slow. If a listener has ends of both kinds, neither
// counts, because they may belong to one connection whose address is translated on the way.
func intruders(listening attest.Addresses, ends []attest.End) []attest.End {
	strangers := attest.Judge(listening, ends).Strangers
	pending := attest.Addresses{}
	for _, e := range strangers {
		if !listening[e.Local] {
			pending[e.Remote] = true
		}
	}
	return slices.DeleteFunc(strangers, func(e attest.End) bool { return !listening[e.Local] || pending[e.Local] })
}

// postpone records a member that gave up connecting and waits for its next ring. It reports
// whether the machine should learn of that only after a look at the connections of the
// others. Otherwise, because no look can succeed or the ring's time to form ends first, the
// machine learns of it at once.
func (l *Leader) postpone(w elastic.SlotWaiting, now time.Time) bool {
	ring := l.machine.Ring()
	switch {
	case w.Retiring || !l.machine.Forming() || ring.Restarts || w.Generation != ring.Generation,
		len(l.gaveUp.waiting)+1 >= len(ring.Members),
		slices.ContainsFunc(ring.Hosts(), func(h elastic.HostID) bool { return l.mute[h] }),
		now.Add(lookTimeout).After(l.machine.FormingEnds()):
		return false
	}
	g := &l.gaveUp
	if len(g.waiting) == 0 {
		g.since = now
		l.formationOf(1)
	}
	g.waiting = append(g.waiting, w)
	return true
}

// releaseAfterLook reports to the machine that members gave up. It waits, for at most
// lookTimeout, for a look that began at least formingLook later and found no intruder.
func (l *Leader) releaseAfterLook(ctx context.Context, now time.Time) {
	if len(l.gaveUp.waiting) == 0 {
		return
	}
	f := l.formation
	if now.Sub(l.gaveUp.since) >= lookTimeout || f == nil || f.clean.Sub(l.gaveUp.since) >= formingLook {
		l.release(ctx)
	}
}

// releaseFor reports to the machine that a process gave up, before anything else about that
// process. If the process exits now, it does not exit as a member.
func (l *Leader) releaseFor(ctx context.Context, p elastic.Proc) {
	if slices.ContainsFunc(l.gaveUp.waiting, func(w elastic.SlotWaiting) bool { return w.Proc == p }) {
		l.release(ctx)
	}
}

// release reports the members that gave up to the machine.
func (l *Leader) release(ctx context.Context) {
	waiting := l.gaveUp.waiting
	l.gaveUp = gaveUp{}
	for _, w := range waiting {
		l.step(ctx, w)
	}
}
