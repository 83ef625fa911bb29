// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// A process that has left its ring and has no next place retires: it is notified, and ends
// by itself. While the next ring trains, it flushes its output and finishes its threads and
// exit handlers. Its exit has no effect on the job: exit code 0 does not complete the
// training.

// timeToRetire returns how long a process may take to end: the rest of the host's time to
// leave or, if the host stays, LeaveTimeout.
func (h *Host) timeToRetire() time.Duration {
	if h.leaving {
		return time.Until(h.deadline)
	}
	return time.Duration(h.o.Config.LeaveTimeout)
}

// retire asks a process, once, to end. If the process can't be asked, it is killed at once,
// otherwise after limit by endRetired.
func (h *Host) retire(p elastic.Proc, s *slot, limit time.Duration) {
	if s.Retiring {
		return
	}
	s.asked, s.Retiring, s.retireBy = true, true, time.Now().Add(limit)
	endpoint := s.endpoint
	h.tell(func(ctx context.Context) {
		if err := endpoint.Retire(ctx); err != nil {
			h.post(func() {
				if h.find(p) == s {
					h.killRetired(p.Slot.Local, s, "could not be told so: "+plaintext.Line(err.Error(), plaintext.Limit))
				}
			})
		}
	})
}

// retireAll ends the host without a leader: waiting processes retire, others are killed.
func (h *Host) retireAll(r Result, limit time.Duration) {
	for local, s := range h.slots {
		if s.State == elastic.Waiting && !s.Retiring {
			p := h.proc(local)
			h.retire(p, s, limit)
			h.send(&wire.ToLeader{Waiting: &elastic.SlotWaiting{Proc: p, Generation: s.Generation, Retiring: true}})
		}
	}
	h.result = &r
	for _, s := range h.slots {
		if !s.Retiring {
			h.stopSlot(s, true)
		}
	}
}

// endRetired kills retiring processes that have not ended in time.
func (h *Host) endRetired() {
	now := time.Now()
	for local, s := range h.slots {
		until, setting := s.retireBy, "leave_timeout"
		if h.leaving {
			until, setting = earlier(until, h.deadline), "kill_timeout"
		}
		if !s.retireBy.IsZero() && now.After(until) {
			h.killRetired(local, s, fmt.Sprintf("has not ended in the time that it was given (%s)", setting))
		}
	}
}

// returned handles a process that asks for its next place, and reports whether it should
// have retired. Such a process is killed.
func (h *Host) returned(s *slot) bool {
	if s.Retiring && !s.retireBy.IsZero() {
		h.killRetired(slices.Index(h.slots, s), s, "continues to train although it was asked to end")
	}
	return s.Retiring
}

func (h *Host) killRetired(local int, s *slot, why string) {
	s.retireBy = time.Time{}
	h.o.Events.Emit(fmt.Sprintf("rank %d of ring %d (host %s, slot %d) is killed: it left the ring, has no place in the next, and %s",
		s.rank, s.Generation, h.o.ID, h.number(local), why))
	s.proc.Stop(true)
}

// held reports whether any process is left that does not retire.
func (h *Host) held() bool {
	return slices.ContainsFunc(h.slots, func(s *slot) bool { return s.State != elastic.Down && !s.Retiring })
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
