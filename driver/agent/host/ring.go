// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// form makes r the current ring unless the host has a newer one, and admits the waiting
// processes that belong to it.
func (h *Host) form(r *elastic.Ring) {
	if h.ring.Newer(r) {
		return
	}
	if wire.IDOf(h.ring) != wire.IDOf(r) {
		if h.exchange != nil {
			h.exchange.Close()
			h.exchange = nil
		}
		if h.ring != nil {
			h.resets++
		}
		h.ring = wire.CloneRing(r)
		h.join()
	}
	for l, s := range h.slots {
		h.tryAdmit(s, elastic.SlotID{Host: h.o.ID, Local: l})
	}
}

// join begins the exchange of the current ring if the host has members in it.
func (h *Host) join() {
	if !slices.Contains(h.ring.Hosts(), h.o.ID) {
		return
	}
	exchange, err := h.o.Framework.Join(h.ring)
	if err != nil {
		h.log.Error("ring refused", "generation", h.ring.Generation, "error", err)
		return
	}
	h.exchange = exchange
	id := wire.IDOf(h.ring)
	h.tasks.Go(func() {
		for {
			select {
			case <-h.life.Done():
				return
			case _, ok := <-exchange.News():
				if !ok {
					return
				}
				h.post(func() { h.news(exchange, id) })
			}
		}
	})
}

// news sends values of local processes to the leader, and reports which processes are
// connected.
func (h *Host) news(x Exchange, id wire.RingID) {
	if h.exchange != x {
		return
	}
	if puts := x.Outgoing(); len(puts) > 0 {
		h.send(&wire.ToLeader{Puts: &wire.RingPuts{Ring: id, Puts: puts}})
	}
	for l, s := range h.slots {
		p := h.proc(l)
		if s.State != elastic.InRing || s.Up || s.Generation != id.Generation || s.Surrogate {
			continue
		}
		if mem := h.ring.Find(p.Slot); mem != nil && x.Up(mem.Assignment.Rank) {
			s.Up = true
			h.listens(s, p, id)
			h.send(&wire.ToLeader{Up: &elastic.SlotUp{Proc: p, Generation: id.Generation}})
		}
	}
}

// arrived handles a process that has sent its first request and waits.
func (h *Host) arrived(p elastic.Proc, e Endpoint, restarts bool) {
	s := h.find(p)
	if s == nil || s.endpoint != e || s.State != elastic.Starting {
		return
	}
	s.State, s.Restarts = elastic.Arrived, restarts
	if restarts {
		h.restarts.Store(true)
	}
	h.send(&wire.ToLeader{Arrived: &elastic.SlotArrived{Proc: p, Restarts: restarts}})
	h.tryAdmit(s, p.Slot)
}

// waiting handles a process that has left its ring and asks for its next assignment.
func (h *Host) waiting(p elastic.Proc, e Endpoint, gen uint64) {
	s := h.find(p)
	if s == nil || s.endpoint != e || h.returned(s) {
		return
	}
	h.reportLast(s)
	if h.exchange != nil {
		h.news(h.exchange, wire.IDOf(h.ring)) // the leader must know that it was connected before it learns that it left
	}
	s.State, s.Idle, s.watch = elastic.Waiting, false, nil
	h.send(&wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: p, Generation: gen}})
	h.tryAdmit(s, p.Slot)
}

func (h *Host) notifiable(p elastic.Proc, e Endpoint) {
	if s := h.find(p); s != nil && s.endpoint == e {
		s.Notifiable = true
		h.send(&wire.ToLeader{Notifiable: &elastic.SlotNotifiable{Proc: p}})
	}
}

// tryAdmit admits a process to the current ring if it waits and is a member.
func (h *Host) tryAdmit(s *slot, id elastic.SlotID) {
	if s.State != elastic.Arrived && s.State != elastic.Waiting || s.Retiring || h.ring == nil || h.exchange == nil || s.Generation >= h.ring.Generation {
		return
	}
	m := h.ring.Find(id)
	if m == nil || m.Proc.Incarnation != s.Incarnation {
		return
	}
	if s.State == elastic.Arrived && s.Assignment != m.Assignment && (s.Restarts || !h.o.Framework.Reassigns()) {
		h.log.Error("started for another assignment", "slot", id, "started", s.Assignment, "ring", m.Assignment)
		return
	}
	h.admit(s, m)
}

func (h *Host) admit(s *slot, m *elastic.Member) {
	s.State, s.Generation, s.Up, s.SyncedSince = elastic.InRing, h.ring.Generation, false, m.SyncedSince
	s.rank, s.Idle, s.watch, s.connected = m.Assignment.Rank, false, nil, nil
	s.latest, s.unsent, s.stepped, s.slow = wire.Progress{}, false, time.Time{}, ""
	s.forming, s.listed = time.Now().Add(formingReport), 0
	if s.Restarts {
		h.withdrawRequest()
	}
	s.endpoint.Admit(h.ring.Generation, m.Assignment)
}
