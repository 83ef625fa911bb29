// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"errors"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// notify notifies a process of a change, if it runs on this host. A process that can't
// change its ring is asked for its checkpoint.
func (h *Host) notify(a wire.Notify) {
	h.notices.Heard(a.Timestamp)
	if !h.Restarts() {
		h.requested = max(h.requested, a.Generation)
	}
	s := h.find(a.Proc)
	if s == nil || !s.Notifiable || s.State != elastic.InRing || s.Generation != a.Generation {
		return
	}
	if s.Restarts {
		h.requestCheckpoint(s)
		return
	}
	endpoint, ts := s.endpoint, a.Timestamp
	if ts == 0 {
		ts = h.notices.Next(a.Generation, time.Now())
	}
	h.tell(func(ctx context.Context) {
		if err := endpoint.Notify(ctx, ts); err != nil && !errors.Is(err, context.Canceled) {
			h.log.Debug("notice not delivered", "slot", a.Proc, "error", err)
		}
	})
}

// breakRing makes processes leave a broken ring. It notifies them, cuts the connections of
// those that are connected, and starts to watch whether they hang.
func (h *Host) breakRing(gen uint64) {
	for l, s := range h.slots {
		if s.State != elastic.InRing || s.Generation != gen {
			continue
		}
		s.endpoint.Break(gen)
		if s.watch == nil {
			s.watch = &idleWatch{since: time.Now()}
		}
		if !s.Up {
			continue
		}
		e, p, id := s.endpoint, s.proc, h.proc(l)
		go func() {
			addrs, g := e.Connections()
			if g != gen || len(addrs) == 0 {
				return
			}
			n, err := shutdownSockets(p.PID(), addrs)
			if err != nil {
				h.log.Warn("can't cut connections, the framework notices the failure by its time-out", "slot", id, "error", err)
				h.post(func() { // until that time-out the process is idle, but does not hang
					if s.proc == p {
						s.watch = nil
					}
				})
				return
			}
			h.log.Debug("connections cut", "slot", id, "generation", gen, "connections", n)
		}()
	}
}
