// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// slot runs one training process at a time.
type slot struct {
	elastic.SlotReport
	proc     *process.Process
	started  uint64 // the start of proc; see inspect.Entry
	endpoint Endpoint
	callers  *callerCheck
	asked    bool      // it was asked to stop
	warned   bool      // a warning of its endpoint was reported
	failed   time.Time // time of the last of Failures
	progress progressFile
	latest   wire.Progress
	sent     time.Time // when progress was last reported to the leader
	unsent   bool      // latest is newer than the last report
	stepped  time.Time // when its last step in this ring was seen, zero if none was
	slow     string    // why its next step takes long, empty if it does not; see wire.Slow
	// stopAt is when a process that was asked for its checkpoint is stopped; zero if it
	// was not asked.
	stopAt time.Time
	watch  *idleWatch // nil unless its ring is broken
	// rank is its rank in the last ring that admitted it. retireBy is when a retiring
	// process is killed; zero if it does not retire or was killed. See retire.
	rank     int
	retireBy time.Time
	// connected is the last report that the process is connected to its ring, or nil.
	connected *wire.Connected
	// forming is when the addresses of a process that is still connecting are reported
	// next. listed is how many of them the leader has.
	forming time.Time
	listed  int
	// postponed is a start that waits for memory.
	postponed *elastic.Start
}

// start starts a process with its assignment in a ring.
func (h *Host) start(a elastic.Start) {
	local := a.Proc.Slot.Local
	if a.Proc.Slot.Host != h.o.ID || local >= len(h.slots) || h.result != nil {
		return
	}
	s := h.slots[local]
	if s.State != elastic.Down || a.Proc.Incarnation <= s.Incarnation {
		return // the message was sent twice
	}
	*s = slot{SlotReport: elastic.SlotReport{State: elastic.Starting, Incarnation: a.Proc.Incarnation,
		Assignment: a.Assignment, Failures: s.Failures, Surrogate: a.Surrogate}, failed: s.failed}
	s.endpoint = h.newEndpoint(a)
	if a.Generation > 0 { // it replaces a process that died while its ring formed
		m := h.ring.Find(a.Proc.Slot)
		if m == nil || h.exchange == nil || h.ring.Generation != a.Generation {
			h.down(s, elastic.SlotExited{Proc: a.Proc, Status: "it has no place in the ring"})
			return
		}
		m.Proc = a.Proc
		if m.SyncedSince != a.Generation {
			m.SyncedSince = 0
		}
		h.admit(s, m)
	}
	if !h.postpone(s, a) {
		h.launch(s, a)
	}
}

// launch starts a slot's process, or reports why it can't.
func (h *Host) launch(s *slot, a elastic.Start) {
	if err := h.spawn(s, a); err != nil {
		h.o.Events.Emit(fmt.Sprintf("slot %d can't be started: %v", h.number(a.Proc.Slot.Local), err))
		h.down(s, elastic.SlotExited{Proc: a.Proc, Status: err.Error()})
	}
}

// newEndpoint returns the endpoint of a process that is to be started.
func (h *Host) newEndpoint(a elastic.Start) Endpoint {
	var e Endpoint
	e = h.o.Framework.NewEndpoint(a.Surrogate, Events{
		Arrived:    func(restarts bool) { h.post(func() { h.arrived(a.Proc, e, restarts) }) },
		Waiting:    func(gen uint64) { h.post(func() { h.waiting(a.Proc, e, gen) }) },
		Notifiable: func() { h.post(func() { h.notifiable(a.Proc, e) }) },
		Progress: func(gen uint64, p wire.Progress) {
			p.At = wire.Seconds(time.Now())
			h.post(func() { h.progressed(a.Proc, e, gen, p) })
		},
		Forming: func(gen uint64, round int, listening []netip.AddrPort) {
			h.post(func() { h.forming(a.Proc, e, gen, round, listening) })
		},
		Connected: func(gen uint64, round int, listening []netip.AddrPort, known bool) {
			h.post(func() { h.connected(a.Proc, e, gen, round, listening, known) })
		},
		Warn: func(text string) { h.post(func() { h.warn(a.Proc, e, text) }) },
	})
	tellBatch(e, h.keepsBatch)
	return e
}

// keepBatch tells all processes whether the job must not adapt its batch, if that has changed.
func (h *Host) keepBatch(keep bool) {
	if keep == h.keepsBatch {
		return
	}
	h.keepsBatch = keep
	for _, s := range h.slots {
		tellBatch(s.endpoint, keep)
	}
}

// tellBatch tells one process, if its framework has a message for that.
func tellBatch(e Endpoint, keep bool) {
	if k, ok := e.(BatchKeeper); ok {
		k.KeepBatch(keep)
	}
}

func (h *Host) spawn(s *slot, a elastic.Start) error {
	local := a.Proc.Slot.Local
	number := h.number(local)
	s.callers = h.newCallerCheck(number)
	if err := s.endpoint.Listen(s.callers); err != nil {
		return fmt.Errorf("no free port on 127.0.0.1: %w", err)
	}
	name := fmt.Sprintf("slot-%d.%d", number, h.starts(local))
	var err error
	s.progress, err = newProgressFile(filepath.Join(h.o.Config.ProgressDir, fmt.Sprintf("progress-%d.jsonl", local)))
	if err != nil {
		return err
	}
	logFile := ""
	if h.o.Config.LogDir != "" {
		logFile = filepath.Join(h.o.Config.LogDir, name+".log")
	}
	p, err := h.spawner.Start(process.Spec{
		Command: h.o.Config.Command, Args: h.o.Config.Args, Dir: h.o.Config.Dir,
		Env:    h.environment(s, a),
		Prefix: fmt.Sprintf("[%s%d] ", h.o.Prefix, number),
		Log:    logFile, Stdout: h.o.Stdout, Stderr: h.o.Stderr,
		Watch: func(line string) { h.watchLine(local, line) },
	})
	if err != nil {
		return err
	}
	s.proc = p
	if s.started, err = inspect.Started(p.PID()); err != nil {
		h.log.Debug("cannot note when a process started", "error", err) // it has ended
	}
	h.log.Debug("slot started", "slot", a.Proc, "rank", a.Assignment.Rank, "size", a.Assignment.Size, "pid", p.PID())
	go func() {
		<-p.Done()
		h.post(func() { h.exited(s, p, a.Proc) })
	}()
	return nil
}

// watchLine looks for the framework's warning of a collective that does not end, and
// reports it to the user once per slot and ring.
func (h *Host) watchLine(local int, line string) {
	if !h.o.Framework.Stalled(line) {
		return
	}
	h.post(func() {
		h.warnOnce(fmt.Sprintf("stall-%d-%d", local, h.slots[local].Generation),
			fmt.Sprintf("slot %d: a collective has stalled, some ranks have not submitted their tensors: %s", h.number(local), strings.TrimSpace(line)))
	})
}

// warn reports an endpoint's warning about its process to the user.
func (h *Host) warn(p elastic.Proc, e Endpoint, text string) {
	if s := h.find(p); s != nil && s.endpoint == e && !s.warned {
		s.warned = true
		h.o.Events.Emit(fmt.Sprintf("slot %d: %s", h.number(p.Slot.Local), text))
	}
}

// exited handles the end of a process.
func (h *Host) exited(s *slot, p *process.Process, id elastic.Proc) {
	if s.proc != p {
		return
	}
	exit := p.Exit()
	ev := elastic.SlotExited{Proc: id, Success: exit.Success(), Noticed: s.requested(), Status: exit.String()}
	var why string
	if ev.Aborted, why = h.o.Framework.Aborted(exit); why != "" {
		ev.Status += ", " + why
	}
	if h.oomKilled() && !ev.Success {
		ev.Status += ", and the kernel has killed a process of this cgroup for lack of memory"
	}
	if last := p.LastError(); !ev.Success && last != "" && !s.asked {
		ev.Status += fmt.Sprintf("; its last words: %q", last)
		if advice := h.o.Framework.Explain(last); advice != "" {
			h.warnOnce(advice, fmt.Sprintf("slot %d: %s", h.number(id.Slot.Local), advice))
		}
	}
	switch {
	case s.asked, s.requested(): // neither a failure nor the end of training
	case ev.Success && s.State == elastic.InRing:
		h.completed, h.completedIn = true, s.Generation
	case s.Restarts && s.State == elastic.InRing: // or its peers' failure; see elastic.Failed
	case !ev.Success && !ev.Aborted:
		h.countFailure(id.Slot.Local)
	}
	h.reportLast(s)
	h.down(s, ev)
}

// countFailure counts a failure of an entry's slot.
func (h *Host) countFailure(local int) {
	if local < 0 || local >= len(h.slots) {
		return
	}
	s := h.slots[local]
	s.Failures = elastic.Forgive(s.Failures, time.Since(s.failed)) + 1
	s.failed = time.Now()
	if other := h.sibling(local); other != nil {
		other.Failures, other.failed = s.Failures, s.failed
	}
}

// down records that a slot has no process, and reports it to the leader.
func (h *Host) down(s *slot, ev elastic.SlotExited) {
	m := &wire.Exited{SlotExited: ev, Ring: wire.IDOf(h.ring)}
	if s.State == elastic.InRing && !s.Up && h.exchange != nil && h.ring.Generation == s.Generation {
		if mem := h.ring.Find(ev.Proc.Slot); mem != nil {
			m.Withdrawn, m.Visible = h.exchange.Withdraw(mem.Assignment.Rank)
		}
	}
	if s.endpoint != nil {
		_ = s.endpoint.Close()
	}
	if s.callers != nil {
		s.callers.close()
	}
	*s = slot{SlotReport: elastic.SlotReport{Incarnation: ev.Proc.Incarnation, Failures: s.Failures}, failed: s.failed}
	h.send(&wire.ToLeader{Exited: m})
	h.resume(ev.Proc.Slot.Local)
	if h.leaving && h.session == nil && h.allDown() {
		h.end(Result{Reason: "the task was stopped"}, true)
	}
}

func (h *Host) stopSlot(s *slot, kill bool) {
	switch {
	case s.postponed != nil:
		p := s.postponed.Proc
		s.postponed = nil
		h.down(s, elastic.SlotExited{Proc: p, Status: "stopped before it was started"})
	case s.Retiring && !kill: // it ends by itself, or is killed after its limit
	case s.State != elastic.Down:
		s.asked = true
		s.proc.Stop(kill)
	}
}

// warnOnce reports a fact to the user once, by its key.
func (h *Host) warnOnce(key, text string) {
	if !h.warned[key] {
		h.warned[key] = true
		h.o.Events.Emit(text)
	}
}
