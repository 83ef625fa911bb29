// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Session is the host's end of a session with the leader.
type Session interface {
	Send(*wire.ToLeader) error
	Recv() (*wire.ToAgent, error)
	Close()
}

// Attach makes s the host's session with the leader. The host registers with its whole
// state and then handles the leader's messages until the session breaks.
func (h *Host) Attach(s Session) error {
	defer s.Close()
	h.post(func() {
		h.session = s
		if err := s.Send(&wire.ToLeader{Register: h.register()}); err != nil {
			h.session = nil
		}
		h.reportConnected()
		h.reportSlow()
	})
	defer h.post(func() {
		if h.session == s {
			h.session = nil
		}
	})
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		h.post(func() {
			if h.session == s {
				h.handle(m)
			}
		})
	}
}

func (h *Host) register() *wire.Register {
	info := elastic.HostInfo{ID: h.o.ID, Group: h.o.Config.Group, Index: h.o.Config.Index, Topology: h.o.Config.Topology, Width: h.width, Reassigns: h.o.Framework.Reassigns(),
		Ring: wire.CloneRing(h.ring), Resets: h.resets, Noticed: h.requested, Leaving: h.leaving, Completed: h.completed, CompletedIn: h.completedIn}
	if h.leaving {
		info.LeavesIn = max(0, time.Until(h.deadline).Seconds())
	}
	for _, s := range h.slots {
		report := s.SlotReport
		if s.Failures > 0 {
			report.FailedAgo = time.Since(s.failed).Seconds()
		}
		info.Slots = append(info.Slots, report)
	}
	r := &wire.Register{Info: info, AllocID: h.o.Config.AllocID, Framework: h.o.Config.Framework, Addr: h.o.Addr, Status: h.status, KeepsRanks: true, Inspects: h.o.Program != "", Noticed: h.notices.Last()}
	if h.exchange != nil {
		r.Keys = h.exchange.Snapshot()
	}
	return r
}

// send sends a message to the leader. A lost message is not repeated: the next registration
// reports the whole state.
func (h *Host) send(m *wire.ToLeader) {
	if h.session == nil {
		return
	}
	if err := h.session.Send(m); err != nil {
		h.session.Close()
		h.session = nil
	}
}

func (h *Host) handle(m *wire.ToAgent) {
	switch {
	case m.Start != nil:
		h.start(*m.Start)
	case m.Stop != nil:
		if s := h.find(m.Stop.Proc); s != nil {
			h.log.Debug("stopping slot", "slot", m.Stop.Proc, "reason", m.Stop.Reason)
			if m.Stop.Retire && s.State == elastic.Waiting {
				h.retire(m.Stop.Proc, s, h.timeToRetire())
			} else {
				h.stopSlot(s, m.Stop.Kill)
			}
		}
	case m.Form != nil:
		h.form(m.Form)
	case m.Notify != nil:
		h.notify(*m.Notify)
	case m.Failed != nil:
		h.countFailure(m.Failed.Slot.Local)
	case m.Break != nil:
		h.breakRing(m.Break.Generation)
	case m.Watch != nil:
		h.watch(*m.Watch)
	case m.Inspect != nil:
		h.inspect(*m.Inspect)
	case m.Look != nil:
		h.look(*m.Look)
	case m.Attest != nil:
		h.attested(m.Attest)
	case m.Synced != nil:
		for _, s := range h.slots {
			if s.Generation == m.Synced.Generation && s.SyncedSince == 0 {
				s.SyncedSince = m.Synced.Generation
			}
		}
	case m.Fill != nil:
		if h.exchange != nil && m.Fill.Ring == wire.IDOf(h.ring) {
			if err := h.exchange.Fill(m.Fill.Fill); err != nil {
				h.log.Error("exchange", "ring", m.Fill.Ring.Generation, "error", err)
			}
		}
	case m.Event != nil:
		h.o.Events.Emit(m.Event.Text)
	case m.Status != nil:
		h.status = m.Status.WithRanks(h.status)
		h.keepBatch(h.status.KeepsBatch)
	case m.Release != nil:
		code := 0
		if m.Release.Failed {
			code = 1
		}
		h.end(Result{Code: code, Reason: m.Release.Reason}, true)
	case m.End != nil:
		h.over = true
		code := 1
		if m.End.Success {
			code = 0
			h.completed, h.completedIn = true, 0
		}
		h.end(Result{Code: code, Reason: m.End.Reason, Completed: m.End.Success}, false)
	}
}
