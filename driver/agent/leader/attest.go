// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/attest"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// secondLook is the time between a look that found an intruder and the one that must
// confirm it. A member that dies during a look also leaves connections with one end, but
// not for long.
const secondLook = 100 * time.Millisecond

// lookTimeout is how long hosts may take to answer a look, and to report that all processes
// are connected once the ring is up. switchTimeout replaces the latter for a later round,
// in which members are still receiving the rest of the state.
const (
	lookTimeout   = 5 * time.Second
	switchTimeout = time.Minute
)

// look is the state of the leader's looks at one round of a ring. In a look, all hosts
// report the connections of their processes.
type look struct {
	round     int
	listening attest.Addresses              // of the members, as far as known
	number    int                           // of the last look, 0 before the first
	asked     time.Time                     // time of that look, or when the leader began to wait for the first
	answers   map[elastic.HostID]*wire.Ends // nil unless a look is in progress
	strangers []attest.End                  // found by the previous look, to be confirmed
}

// attestation is one round in which the hosts of a ring compare its connections.
type attestation struct {
	look
	members map[elastic.Proc]bool // the connected ones, and whether their listening addresses are known
	again   bool                  // a second look is due
	done    bool                  // it has ended, and the ring may go on
}

// connected handles a process of the ring that is connected.
func (l *Leader) connected(m *wire.Connected) {
	delete(l.mute, m.Proc.Slot.Host)
	if m.Ring != l.ring || m.Round < 1 || len(m.Listening) > wire.MaxListening {
		return
	}
	a := l.attestation
	if a == nil || a.round < m.Round {
		a = &attestation{look: look{round: m.Round, listening: attest.Addresses{}, asked: time.Now()}, members: map[elastic.Proc]bool{}}
		l.attestation = a
	}
	switch {
	case m.Attested && a.round == m.Round: // attested by an earlier leader
		l.attested(a)
	case a.done || a.round > m.Round: // a later round begins after this one is attested
		l.send(m.Proc.Slot.Host, &wire.ToAgent{Attest: &wire.Attest{Ring: l.ring, Round: m.Round}})
	default:
		a.members[m.Proc] = m.Known
		for _, addr := range m.Listening {
			a.listening.Add(addr)
		}
		l.checkAttestation()
	}
}

// checkAttestation starts the first look once all members are connected.
func (l *Leader) checkAttestation() {
	a := l.attestation
	if a == nil || a.done || a.number > 0 || !l.machine.Up() {
		return
	}
	var silent []int
	mute := false
	for _, m := range l.machine.Ring().Members {
		known, connected := a.members[m.Proc]
		switch {
		case !connected && l.mute[m.Proc.Slot.Host]:
			mute = true
		case !connected:
			return
		case !known:
			silent = append(silent, m.Assignment.Rank)
		}
	}
	switch {
	case mute:
		l.unattested(oldAgent)
	case len(silent) > 0:
		l.unattested(fmt.Sprintf("the processes of ranks %v do not report where they listen: install the kolo package of the driver's release", silent))
	case len(a.listening) == 0 && a.round == 1 && len(l.machine.Ring().Members) > 1:
		l.unattested("its processes listen at no address of their own")
	case len(a.listening) == 0: // a ring of one member, or a group that reuses the previous group's connections
		l.attested(a)
	default:
		l.lookAt(a)
	}
}

// lookAt asks all hosts of the ring for their connections.
func (l *Leader) lookAt(a *attestation) {
	l.formation = nil
	a.asked, a.again = time.Now(), false
	l.ask(&a.look, 1)
}

// ask begins the next look. The sign of its number shows its kind, see wire.Look.
func (l *Leader) ask(k *look, sign int) {
	k.number += sign
	k.answers = map[elastic.HostID]*wire.Ends{}
	sendTo(l, l.machine.Ring().Hosts(), &wire.ToAgent{Look: &wire.Look{Ring: l.ring, Round: k.round, Number: k.number,
		Listening: slices.SortedFunc(maps.Keys(k.listening), netip.AddrPort.Compare)}})
}

// looked handles a host's answer to a look.
func (l *Leader) looked(ctx context.Context, id elastic.HostID, m *wire.Ends) {
	a := l.attestation
	if a == nil || a.done || !l.machine.Up() {
		return
	}
	ends, unknown, all := l.answered(&a.look, id, m)
	if !all {
		return
	}
	v := attest.Judge(a.listening, ends)
	if a.number > 1 { // a process that connected after the first look has replaced no member
		v.Strangers = slices.DeleteFunc(v.Strangers, func(e attest.End) bool { return !slices.Contains(a.strangers, e) })
	}
	a.strangers = v.Strangers
	switch {
	case unknown != "":
		l.unattested(unknown)
	case len(v.Strangers) > 0 && a.number == 1:
		a.again = true
	case len(v.Strangers) > 0:
		l.intruded(ctx, a.round, v.Strangers)
	case v.Translated > 0:
		l.unattested(fmt.Sprintf("addresses of %d connections are translated between hosts", v.Translated))
	default:
		l.log.Debug("ring attested", "generation", l.ring.Generation, "round", a.round, "ends", len(ends), "took", time.Since(a.asked))
		l.attested(a)
	}
}

// answered records a host's answer to a look. Once every host of the ring has answered, it
// returns all with the answers in ends; unknown states why ends is incomplete, or is "". It
// does not return all while an answer is missing, or if this answer is to another look.
func (l *Leader) answered(k *look, id elastic.HostID, m *wire.Ends) (ends []attest.End, unknown string, all bool) {
	if k.answers == nil || m.Ring != l.ring || m.Round != k.round || m.Number != k.number {
		return nil, "", false
	}
	k.answers[id] = m
	for _, h := range l.machine.Ring().Hosts() {
		answer := k.answers[h]
		if answer == nil {
			return nil, "", false
		}
		reason := answer.Unknown
		if err := attest.Check(answer.Ends); err != nil {
			reason = err.Error()
		} else {
			ends = append(ends, answer.Ends...)
		}
		if reason != "" {
			unknown = fmt.Sprintf("host %s: %s", h, plaintext.Line(reason, plaintext.Limit))
		}
	}
	return ends, unknown, true
}

const oldAgent = "the agent of a member does not report where its processes listen: update all clients of the job"

// lookAgain starts the second look when it is due, and gives up on hosts that do not
// answer.
func (l *Leader) lookAgain(now time.Time) {
	a := l.attestation
	if a == nil || a.done {
		return
	}
	if a.number == 0 && !l.complete() {
		a.asked = now
	}
	if !l.machine.Up() {
		return
	}
	switch since := now.Sub(a.asked); {
	case a.number == 0 && since < lookTimeout, a.number == 0 && a.round > 1 && since < switchTimeout:
	case a.number == 0: // all are connected, so the agent that did not report that is of an older version
		l.silence(a)
		l.unattested(oldAgent)
	case a.again && since >= secondLook:
		l.lookAt(a)
	case !a.again && since >= lookTimeout:
		l.unattested(fmt.Sprintf("a host has not reported its connections in %s", lookTimeout))
	}
}

// complete reports whether the members of the ring are connected, and their hosts in
// session.
func (l *Leader) complete() bool {
	away := func(h elastic.HostID) bool { return l.hosts[h] == nil || l.hosts[h].session == nil }
	return l.machine.Up() && !slices.ContainsFunc(l.machine.Ring().Hosts(), away)
}

// silence records the hosts that have not reported that their processes are connected.
// The next rings do not wait for them.
func (l *Leader) silence(a *attestation) {
	for _, m := range l.machine.Ring().Members {
		if _, connected := a.members[m.Proc]; !connected {
			l.mute[m.Proc.Slot.Host] = true
		}
	}
}

// attested reports to the hosts that a round is attested, so that the ring goes on.
func (l *Leader) attested(a *attestation) {
	a.done, l.formation = true, nil
	l.broadcast(&wire.ToAgent{Attest: &wire.Attest{Ring: l.ring, Round: a.round}})
}

// unattested lets a ring continue although its connections could not be checked. It reports
// the first reason in a term to the user.
func (l *Leader) unattested(why string) {
	l.log.Warn("the ring's connections are not attested", "generation", l.ring.Generation, "reason", why)
	if !l.toldUnattested {
		l.toldUnattested = true
		l.broadcast(&wire.ToAgent{Event: &elastic.TaskEvent{Text: fmt.Sprintf(
			"ring %d: whether a stranger is connected to it is unknown: %s", l.ring.Generation, why)}})
	}
	l.attested(l.attestation)
}

// intruded breaks a ring with unidentified connections. Each host reports them, with the
// processes on its machine that they belong to.
func (l *Leader) intruded(ctx context.Context, round int, strangers []attest.End) {
	generation := l.ring.Generation
	l.log.Warn("strangers are connected to the ring", "generation", generation, "connections", len(strangers), "first", strangers[0])
	l.broadcast(&wire.ToAgent{Attest: &wire.Attest{Ring: l.ring, Round: round, Strangers: strangers[:min(len(strangers), wire.MaxStrangers)]}})
	l.attestation, l.formation = nil, nil
	l.stats.fail()
	l.stats.leave(time.Now())
	l.step(ctx, elastic.Intruded{Generation: generation})
}
