// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// Exchange collects and distributes the values that the processes of one ring exchange to
// connect. It does no I/O. The training framework implements it.
type Exchange interface {
	// Expect names the hosts of a ring that an earlier leader has formed. It is unknown
	// which values that leader distributed until Restore was called for each host.
	Expect(hosts []string)
	// Submit takes values from a host, and returns the values to send out.
	Submit(host string, puts []wire.Put) ([]wire.Fill, error)
	// Restore takes all values of a host that registers, and returns the values to send
	// out.
	Restore(host string, s wire.Snapshot) ([]wire.Fill, error)
	// Withdraw drops the values of a process that died. If one of them may have been read,
	// it drops none and returns visible: the ring cannot form.
	Withdraw(puts []wire.Put) (visible bool)
	// Connected is called when all processes of the ring are connected.
	Connected()
}

// followRing begins an exchange when there is a newer ring. If an earlier leader formed it,
// its hosts have yet to report the values that leader distributed.
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
