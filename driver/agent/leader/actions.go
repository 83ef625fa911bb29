// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// step passes the machine an event and performs the actions that it returns.
func (l *Leader) step(ctx context.Context, ev elastic.Event) {
	for _, a := range l.machine.Step(time.Now(), ev) {
		if l.failed != nil {
			return
		}
		l.perform(ctx, a)
	}
	if up := l.machine.Up(); up != l.wasUp {
		l.wasUp = up
		if up {
			l.stepped = time.Now()
			l.exchange.Connected()
			l.reportResize(l.stats.up(time.Now()))
		}
		l.publish()
	}
	if !l.machine.Forming() {
		l.release(ctx)
	}
}

func (l *Leader) perform(ctx context.Context, a elastic.Action) {
	switch a := a.(type) {
	case elastic.Start:
		l.send(a.Proc.Slot.Host, &wire.ToAgent{Start: &a})
	case elastic.Stop:
		l.send(a.Proc.Slot.Host, &wire.ToAgent{Stop: &a})
	case elastic.Form:
		l.form(ctx, a)
	case elastic.Synced:
		l.broadcast(&wire.ToAgent{Synced: &a})
	case elastic.Notify:
		l.notify(a)
	case elastic.Failed:
		l.send(a.Slot.Host, &wire.ToAgent{Failed: &a})
	case elastic.Break:
		l.breakRing(a)
	case elastic.ReleaseHost:
		if h := l.hosts[a.Host]; h != nil {
			h.released = true
		}
		l.send(a.Host, &wire.ToAgent{Release: &a})
	case elastic.End:
		l.end(ctx, a)
	case elastic.TaskEvent:
		if a.Host != "" {
			l.send(a.Host, &wire.ToAgent{Event: &a})
		} else {
			l.broadcast(&wire.ToAgent{Event: &a})
		}
	}
}

// notify sends a notice to a process. If processes can change their ring, every host gets
// the notice, so that all of them know its timestamp.
func (l *Leader) notify(a elastic.Notify) {
	m := &wire.ToAgent{Notify: &wire.Notify{Notify: a, Timestamp: l.notices.Next(a.Generation, time.Now())}}
	if !l.machine.Restarts() {
		l.broadcast(m)
		return
	}
	l.send(a.Proc.Slot.Host, m)
}

// breakRing makes the hosts cut the connections of a ring.
func (l *Leader) breakRing(a elastic.Break) {
	l.log.Info("ring broken", "generation", a.Generation)
	l.broadcast(&wire.ToAgent{Break: &a})
}

// form asks the quorum for consent to a new ring and sends the ring to its hosts.
func (l *Leader) form(ctx context.Context, a elastic.Form) {
	id := wire.IDOf(&a.Ring)
	// This leader has started again: rings of its term up to the floor already have
	// consent.
	if fresh := id.Term == l.o.Term && id.Generation > l.o.Floor && id != l.agreed; fresh {
		if l.o.Quorum != nil {
			var allocs []string
			for _, h := range a.Ring.Hosts() {
				if m := l.hosts[h]; m != nil {
					allocs = append(allocs, m.alloc)
				}
			}
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			err := l.o.Quorum.Form(ctx, a.Ring.Generation, allocs)
			cancel()
			if err != nil {
				l.failed = fmt.Errorf("%w: generation %d: %w", ErrRefused, a.Ring.Generation, err)
				return
			}
		}
		l.agreed = id
		l.log.Info("ring formed", "generation", id.Generation, "size", len(a.Ring.Members), "hosts", len(a.Ring.Hosts()))
		l.stats.form(&a.Ring, time.Now())
		l.auto.formed()
		l.last = lastRanks{}
		l.wasUp = false
	}
	l.followRing()
	ring := wire.CloneRing(&a.Ring)
	if id.Term == l.o.Term {
		ring.Attests = !ring.Restarts
	}
	sendTo(l, a.Hosts, &wire.ToAgent{Form: ring})
}

func (l *Leader) end(ctx context.Context, a elastic.End) {
	if l.ended == nil && a.Success && l.o.Record != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := l.o.Record.Save(ctx, a.Reason); err != nil {
			l.log.Warn("completion is not recorded: an allocation placed later would train again", "error", err)
		}
		cancel()
	}
	l.ended = &a
	l.publish()
	l.broadcast(&wire.ToAgent{End: &a})
}
