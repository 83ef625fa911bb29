// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// receive handles one message of a host.
func (l *Leader) receive(ctx context.Context, id elastic.HostID, m *wire.ToLeader) {
	switch {
	case m.Leaving != nil:
		l.log.Info("host leaves", "host", id)
		l.step(ctx, elastic.HostLeaving{Host: id, Within: time.Duration(m.Leaving.Within * float64(time.Second))})
	case m.Arrived != nil:
		if l.o.Quorum != nil {
			l.o.Quorum.Connect(l.hosts[id].alloc) // before the ring stops for this newcomer
		}
		l.step(ctx, *m.Arrived)
	case m.Waiting != nil:
		l.stats.leave(time.Now())
		l.releaseFor(ctx, m.Waiting.Proc)
		if !l.postpone(*m.Waiting, time.Now()) {
			l.step(ctx, *m.Waiting)
		}
	case m.Forming != nil:
		l.forming(m.Forming)
	case m.Connected != nil:
		l.connected(m.Connected)
	case m.Up != nil:
		l.step(ctx, *m.Up)
		l.checkAttestation()
	case m.Ends != nil && m.Ends.Number < 0:
		l.lookedForming(ctx, id, m.Ends)
	case m.Ends != nil:
		l.looked(ctx, id, m.Ends)
	case m.Notifiable != nil:
		l.step(ctx, *m.Notifiable)
	case m.Idle != nil:
		l.step(ctx, *m.Idle)
	case m.Watched != nil:
		l.watched(id, m.Watched)
	case m.Inspected != nil:
		l.receiveStacks(id, m.Inspected)
	case m.Slow != nil:
		l.slowed(m.Slow, time.Now())
	case m.Exited != nil:
		l.stopSlow(m.Exited.Proc, time.Now())
		l.releaseFor(ctx, m.Exited.Proc)
		ev := m.Exited.SlotExited
		ev.Status = plaintext.Line(ev.Status, plaintext.Limit) // from another host, whose tenant may control the text
		if m.Exited.Ring == l.ring && l.exchange != nil && len(m.Exited.Withdrawn) > 0 && l.exchange.Withdraw(m.Exited.Withdrawn) {
			ev.Visible = true
		}
		l.countExit(ev)
		l.step(ctx, ev)
	case m.Puts != nil:
		if m.Puts.Ring == l.ring && l.exchange != nil {
			fills, err := l.exchange.Submit(string(id), m.Puts.Puts)
			l.fill(fills, err)
		}
	case m.Progress != nil:
		m.Progress.Bound()
		if m.Progress.Generation > 0 {
			if m.Progress.Step != nil {
				l.step(ctx, elastic.Trained{Generation: m.Progress.Generation})
			}
			if before := l.stats.latest.Step; m.Progress.Generation == l.ring.Generation && m.Progress.Step != nil &&
				(before == nil || *before != *m.Progress.Step) {
				l.stepped = time.Now()
			}
			if ring := l.machine.Ring(); ring != nil && m.Progress.Generation == l.ring.Generation {
				l.last.add(m.Progress.Last, len(ring.Members), time.Now())
			}
			l.countSteps(m.Progress, time.Now())
			l.reportResize(l.stats.progress(*m.Progress))
		}
	}
}

// countExit records in the ring's statistics that a process ended.
func (l *Leader) countExit(ev elastic.SlotExited) {
	ring := l.machine.Ring()
	asked := ev.Noticed || l.machine.Restarts() && ring != nil && l.machine.Asked() == ring.Generation
	if mem := ring.Find(ev.Proc.Slot); mem == nil || ev.Success && !asked {
		return
	}
	if !asked {
		l.stats.fail()
	}
	l.stats.leave(time.Now())
}

func (l *Leader) send(id elastic.HostID, m *wire.ToAgent) {
	if h := l.hosts[id]; h != nil && h.session != nil {
		if err := h.session.Send(m); err != nil {
			h.session.Close()
		}
	}
}

// sendTo sends a message to the given hosts, or to all if hosts is nil.
func sendTo[ID ~string](l *Leader, hosts []ID, m *wire.ToAgent) {
	if hosts == nil {
		l.broadcast(m)
	}
	for _, h := range hosts {
		l.send(elastic.HostID(h), m)
	}
}

func (l *Leader) broadcast(m *wire.ToAgent) {
	for id := range l.hosts {
		l.send(id, m)
	}
}
