// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Exchange gathers what the processes of one ring exchange to connect, and gives
// it out. It does no I/O. The training framework
// implements it.
type Exchange interface {
	// Expect names the hosts of a ring that an earlier leader has formed: what that
	// one gave out is not known until each of them is restored.
	Expect(hosts []string)
	// Submit takes values from a host and returns what is to be sent out.
	Submit(host string, puts []wire.Put) ([]wire.Fill, error)
	// Restore takes all that a host has when it registers.
	Restore(host string, s wire.Snapshot) ([]wire.Fill, error)
	// Withdraw drops the values of a process that died, unless one of them may
	// have been read: then visible is true, and the ring does not form.
	Withdraw(puts []wire.Put) (visible bool)
	// Connected is called when all processes of the ring are connected.
	Connected()
}

// followRing begins an exchange with each newest ring. For a ring of an earlier
// leader, its hosts have yet to report what that one gave out.
func (l *Leader) followRing() {
	last := l.machine.Last()
	id := wire.IDOf(last)
	if id == l.ring {
		return
	}
	l.ring, l.exchange, l.attestation, l.formation = id, l.o.Exchange(), nil, nil
	if id.Term != l.o.Term {
		var hosts []string
		for _, h := range last.Hosts() {
			hosts = append(hosts, string(h))
		}
		l.exchange.Expect(hosts)
	}
}

func (l *Leader) fill(fills []wire.Fill, err error) {
	if err != nil {
		l.log.Error("exchange", "ring", l.ring.Generation, "error", err)
	}
	for _, f := range fills {
		sendTo(l, f.Hosts, &wire.ToAgent{Fill: &wire.RingFill{Ring: l.ring, Fill: f}})
	}
}
