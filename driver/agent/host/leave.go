// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// Leave states that the task is being stopped and how long that may take. The slots train
// on until the ring has released them. If Leave is called again, the earliest deadline
// counts, because Nomad may stop a task that has already received another signal.
func (h *Host) Leave(timeout time.Duration) {
	h.post(func() {
		deadline := time.Now().Add(timeout)
		if h.leaving && !deadline.Before(h.deadline) {
			return
		}
		h.leaving, h.deadline = true, deadline
		h.send(&wire.ToLeader{Leaving: &wire.Leaving{Within: timeout.Seconds()}})
	})
}

// poll checks progress files, processes that may hang, and deadlines.
func (h *Host) poll() {
	h.endRequests()
	h.reportForming(time.Now())
	h.endRetired()
	for local, s := range h.slots {
		if s.State == elastic.InRing {
			h.readProgress(s)
			h.watchIdle(h.proc(local), s)
		}
	}
	h.watchRing(time.Now())
	h.listRanks(time.Now())
	h.retireInTime()
	if h.leaving && !h.killed && time.Now().After(h.deadline) {
		h.killed = true
		if h.held() {
			h.o.Events.Emit(fmt.Sprintf("the ring did not release this host in time (kill_timeout); its slots are stopped (%s), training goes back to the last commit", h.ranks()))
		}
		h.end(Result{Reason: "the task was stopped"}, false)
	}
	if h.leaving && h.allDown() && h.session == nil {
		h.end(Result{Reason: "the task was stopped"}, true)
	}
	h.drainWithoutLeader()
}

// ranks returns, for a message, the ranks of the current ring that the host still has.
func (h *Host) ranks() string {
	var list []string
	for local, s := range h.slots {
		if m := h.ring.Find(elastic.SlotID{Host: h.o.ID, Local: local}); m != nil && s.State == elastic.InRing && s.Generation == h.ring.Generation {
			list = append(list, fmt.Sprintf("rank %d of ring %d, host %s, slot %d", m.Assignment.Rank, h.ring.Generation, h.o.ID, h.number(local)))
		}
	}
	if list == nil {
		return "none of them in a ring"
	}
	return strings.Join(list, "; ")
}

// leaderlessWait is how long a leaving host waits for a leader, lastHostWait how long the
// last host waits for others. lastChance is the part of the time to leave that is reserved
// for processes to end by themselves.
const (
	leaderlessWait = 2 * time.Second
	lastHostWait   = 6 * time.Second
	lastChance     = time.Second
)

// retireInTime makes waiting processes retire while there is still time for that, even if a
// leader might still have a place for them.
func (h *Host) retireInTime() {
	if h.leaving && h.result == nil && !h.Restarts() && !h.training() && !h.allDown() && time.Until(h.deadline) < lastChance {
		h.retireAll(Result{Reason: "the task was stopped"}, h.timeToRetire())
	}
}

// training reports whether a process of the host is in a ring.
func (h *Host) training() bool {
	return slices.ContainsFunc(h.slots, func(s *slot) bool { return s.State == elastic.InRing })
}

// drainWithoutLeader handles the case that all hosts of a job are stopped at once. Nomad
// has then removed them from the registry, so none of them may lead, and it starts an
// allocation's successor only when the allocation has ended (nomad/client/allocwatcher). So
// the ring ends at its next commit, and all hosts end except for that of rank 0. That host
// keeps the state until the successors have started and elected a leader, or until it is
// clear that there will be none.
func (h *Host) drainWithoutLeader() {
	led := h.session != nil && (h.status == nil || h.status.Hold == "")
	if !h.leaving || led || h.result != nil {
		h.leaderless, h.lastHost = time.Time{}, time.Time{}
		return
	}
	now := time.Now()
	if h.leaderless.IsZero() {
		h.leaderless = now
	}
	if now.Sub(h.leaderless) < leaderlessWait {
		return
	}
	var root *elastic.Member
	if h.ring != nil && h.ring.Members[0].Proc.Slot.Host == h.o.ID {
		root = &h.ring.Members[0]
	}
	training := h.training()
	switch {
	case training && h.Restarts():
		h.requestCheckpoints()
	case h.Restarts(): // no process holds the state
		h.end(Result{Reason: "the task was stopped"}, true)
	case training && root != nil:
		if now.Sub(h.drained) > time.Second {
			h.drained = now
			h.notify(wire.Notify{Notify: elastic.Notify{Proc: root.Proc, Generation: h.ring.Generation}})
		}
	case training:
	case root == nil || h.allDown():
		// The successors start after this task has ended, and need time, too.
		h.retireAll(Result{Reason: "the task was stopped; the host of rank 0 keeps the training state for the next allocations"}, h.timeToRetire()/2)
	case h.o.LastHost != nil && !h.o.LastHost():
		h.lastHost = time.Time{}
	case h.lastHost.IsZero():
		h.lastHost = now
	case now.Sub(h.lastHost) > lastHostWait:
		h.retireAll(Result{Reason: "all of the job's tasks were stopped"}, h.timeToRetire())
	}
}
